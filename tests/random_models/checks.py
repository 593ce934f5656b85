"""Compare a target, its draws and its trace with what `oracles` computes for the same model."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.interop.groups.target import IntegratedOfPyMC, QuadratureGroupsOfPyMC
from tests.random_models import oracles
from tests.random_models.models import RandomModel

POINTS, SPREAD = 3, 0.3  # compared at so many points, with this standard deviation around the start
BEND = 0.05  # distance from 0 of coordinates whose absolute value the trace holds: it has no derivative at 0
EXACT = 3e-6  # relative; float32 data and PyMC's truncated densities have no more digits
QUADRATURE = 0.01  # nats, over all groups: what the library promises near the mode
DRAWS, FAR = 60, 6.0  # draws of effects; standard errors of their mean: false alarms in 2e-9 of comparisons
STEPS = amc.MetropolisHastings(amc.RandomWalk(0.05), amc.ExactTest())


def points(target: Any, rng: np.random.Generator) -> np.ndarray:
    """Return the target's start and random points around it; shape (points, dim)."""
    start = target.initial_point()
    noise = rng.normal(scale=SPREAD, size=(POINTS, len(start)))
    noise[0] = 0.0
    thetas = start + noise
    signed = list(getattr(target.variables, "signed", ()))
    thetas[:, signed] += np.where(thetas[:, signed] >= 0.0, BEND, -BEND)
    return thetas


def compare_density(model: RandomModel, target: Any, rng: np.random.Generator) -> None:
    """Compare log prior, terms and gradients; constants may differ, so differences between points are compared."""
    thetas = points(target, rng)
    compiled, names = target.compile(), list(target.variables.shapes)
    integrated = list(target.groups.axes) if isinstance(target, IntegratedOfPyMC) else []
    roots = [one.name for one in integrated]
    found_prior, prior, found_terms, terms = [], [], [], []
    for theta in thetas:
        values = oracles.at_point(model, target.variables.unpack(theta))
        jacobian = oracles.log_jacobian(model, target.variables, theta)
        prior.append(model.log_prior(values, [*roots, *model.discrete]) + jacobian)
        found_prior.append(compiled.log_prior(theta))
        terms.append(expected_terms(model, target, values))
        found_terms.append(full_terms(compiled.log_terms, theta, compiled.data, target.n_obs))
    assert set(names) == set(model.free) - set(roots) - set(model.discrete), "the parameters are not those of the model"
    _same_differences("log prior", np.array(found_prior), np.array(prior), EXACT)
    by_quadrature = isinstance(target, QuadratureGroupsOfPyMC)
    if by_quadrature:
        errors = np.diff(np.array(found_terms).sum(axis=1) - np.array(terms).sum(axis=1))
        assert np.abs(errors).max() < 2 * QUADRATURE, f"quadrature errs by {errors} nats, said {target.accuracy.nats}"
    _same_differences("terms", np.array(found_terms), np.array(terms), 2 * QUADRATURE if by_quadrature else EXACT)
    compare_gradient(target, thetas[-1], 0.1 if by_quadrature else 1e-4)


def expected_terms(model: RandomModel, target: Any, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the log-likelihood of each row, each group with effects integrated out, or each summed entry."""
    values = dict(values)
    if isinstance(target, IntegratedOfPyMC):
        groups = groups_of(model, target, values)
        rows = model.flat_rows(values)
        with_rows = np.unique(groups.rows[groups.rows >= 0])
        found = oracles.integral(model, values, groups).log[with_rows]
        return np.concatenate([found, rows[groups.rows == -1]])
    rows = [one.reshape((len(one), -1)).sum(axis=1) for one in model.rows(values).values()]
    if model.discrete:
        [name] = model.discrete
        reached = oracles.rows_of_each_entry(model, values, name).any(axis=0)
        entries = oracles.sum_over_states(model, values, [name]).log
        rest = np.where(reached, 0.0, model.flat_rows({**values, name: np.zeros(len(values[name]), int)}))
        stops = np.cumsum([len(one) for one in rows])[:-1]
        others = [one for one in np.split(rest, stops) if one.any()]
        return np.sum([entries, *others], axis=0)
    return np.sum(rows, axis=0)


def groups_of(model: RandomModel, target: Any, values: Mapping[str, np.ndarray]) -> oracles.Groups:
    """Find the rows of each group by changing effects, at effects that are neither 0 nor equal."""
    axes = {variable.name: axis for variable, axis in target.groups.axes.items()}
    return oracles.groups_of(model, dict(values), axes)


def compare_gradient(target: Any, theta: np.ndarray, allowed: float) -> None:
    """Compare the gradient with numerical derivatives of the target's own log density."""
    compiled, gradient = target.compile(), target.compile_gradient()
    order = np.empty(0, dtype=np.int64)
    found = np.zeros(len(theta))
    gradient.add_gradient(theta, gradient.data, order, 0, target.n_obs, found)
    gradient.add_prior_gradient(theta, found)

    def log_density(point: np.ndarray) -> float:
        terms = full_terms(compiled.log_terms, point, compiled.data, target.n_obs)
        return float(compiled.log_prior(point) + terms.sum())

    expected = oracles.derivative(log_density, theta)
    allowed *= 1.0 + np.abs(expected).max()
    if np.abs(found - expected).max() > allowed:
        # The density of a Laplace prior has a kink at its location, between the points of one model in 400.
        expected = oracles.derivative(log_density, theta, oracles.SHORT_STEP)
    assert np.abs(found - expected).max() <= allowed, f"gradient {found}, numerical {expected}"


def _same_differences(what: str, found: np.ndarray, expected: np.ndarray, allowed: float) -> None:
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    size = 1.0 + np.abs(found) + np.abs(expected)
    wrong = np.abs((found[1:] - found[0]) - (expected[1:] - expected[0])) > allowed * (size[1:] + size[0])
    assert not wrong.any(), f"{what}: {found[1:] - found[0]}, expected {expected[1:] - expected[0]}"


def compare_latents(model: RandomModel, target: Any, rng: np.random.Generator) -> None:
    """Compare draws of integrated effects, and weights of states, with their exact means and probabilities."""
    [theta] = points(target, rng)[:1]
    values = oracles.at_point(model, target.variables.unpack(theta))
    if isinstance(target, IntegratedOfPyMC):
        groups = groups_of(model, target, values)
        exact = oracles.integral(model, values, groups)
        drawn = target.draw_latents(rng, np.tile(theta, (DRAWS, 1)), np.arange(groups.n_groups))
        named = target.name_latents(np.tile(theta, (DRAWS, 1)), drawn, np.arange(groups.n_groups))
        place = 0
        for name, axis in groups.axes.items():
            draws = np.moveaxis(named[name][1], axis + 1, 1).reshape((DRAWS, groups.n_groups, -1))
            k = draws.shape[2]
            error = exact.sd[:, place : place + k] / np.sqrt(DRAWS)
            off = np.abs(draws.mean(axis=0) - exact.mean[:, place : place + k]) / error
            assert off.max() < FAR, f"draws of {name} have means {off} standard errors from those given the rows"
            place += k
    elif target.summed is not None:
        [name] = model.discrete
        found = target.summed.weights(theta[None])[0]
        np.testing.assert_allclose(found, oracles.sum_over_states(model, values, [name]).weights, atol=1e-6)


def draw_trace(target: Any, seed: int) -> Any:
    """Return a trace of two chains, which run in two threads."""
    how = {"draws": 2, "tune": 1, "chains": 2, "progressbar": False, "audit_every": None}
    return amc.sample(target, STEPS, random_seed=seed, **how)


def compare_trace(model: RandomModel, pymc_model: Any, trace: Any) -> None:
    """Compare names, shapes, dims and coords with those of `pm.sample`, and deterministics with NumPy's."""
    posterior = trace["posterior"].to_dataset()
    wanted = [one.name for one in pymc_model.unobserved_RVs]
    assert set(wanted) == {*model.free, *model.deterministics}
    missing = sorted(set(wanted) - set(map(str, posterior.data_vars)))
    assert not missing, f"the trace lacks {missing}"
    surplus = sorted(set(map(str, posterior.data_vars)) - set(wanted))
    assert not surplus, f"the trace has {surplus}, which pm.sample does not return"
    shapes = {name: (one.shape, one.dims) for name, one in model.free.items()}
    start = {name: posterior[name].values[0, 0] for name in model.free}
    computed = model.expected(start)
    shapes |= {name: (computed[name].shape, dims) for name, (_, dims) in model.deterministics.items()}
    for name, (shape, dims) in shapes.items():
        own = posterior[name].transpose("chain", "draw", ...)
        names = dims or tuple(f"{name}_dim_{axis}" for axis in range(len(shape)))
        assert own.dims[2:] == names, f"{name} has the dims {own.dims[2:]}, expected {names}"
        assert own.shape[2:] == shape, f"{name} has the shape {own.shape[2:]}, expected {shape}"
        for axis, dim in enumerate(names):
            labels = np.asarray(model.coords[dim] if dim in model.coords else np.arange(shape[axis]))
            assert dim in own.coords, f"the axis {dim} of {name} has no coordinate"
            assert (own.coords[dim].values == labels).all(), f"{dim}: {own.coords[dim].values}, expected {labels}"
    chains, draws = (posterior.sizes[axis] for axis in ("chain", "draw"))
    for chain in range(chains):
        for draw in range(draws):
            values = {name: posterior[name].values[chain, draw] for name in model.free}
            for name, expected in model.expected(values).items():
                np.testing.assert_allclose(posterior[name].values[chain, draw], expected, 1e-5, 1e-6, err_msg=name)


def compare_pointwise(model: RandomModel, pymc_model: Any, trace: Any) -> None:
    """Compare the log-likelihood of each row at the draws."""
    found = amc.log_likelihood(trace, pymc_model)["log_likelihood"].to_dataset()
    posterior = trace["posterior"].to_dataset()
    draw = posterior.sizes["draw"] - 1
    values = {name: posterior[name].values[0, draw] for name in model.free}
    for name, expected in model.rows(values).items():
        np.testing.assert_allclose(found[name].values[0, draw], expected, 1e-5, 1e-5, err_msg=name)
