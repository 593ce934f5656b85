"""Coverage of the intervals of `approxmcmc.bias` where the bias is known.

- *Enumerable chains*: three binary sites, updated one at a time or in sweeps by samplers with a sequential t-test. The
  stationary distribution on their eight states is computed from the transition matrix, averaged over all orders of the
  terms, and draws of it are independent. Both forms of `bias` estimate the same number.
- *The canonical normal model*: draws of N(mean + shift, spread^2) in place of the posterior N(mean, 1), for the drift
  form, with a random walk as exact kernel.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import approxmcmc as amc
from approxmcmc.bounds.finite import grid_of_points, stationary_distribution
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.study.report import Table

N = 500
LAWS = ((0.0, 1.0), (0.3, 1.0), (0.0, 1.3))  # shift and spread, in posterior sds
TEST = amc.SequentialTTest(0.4, batch_size=2)


class Case(NamedTuple):
    """A distribution with known biases: ``draw(rng, n) -> (1, n, ...)``, `truth` by estimand, arguments of `bias`."""

    name: str
    target: Any
    sampler: Any
    variable: str
    draw: Any
    truth: np.ndarray
    how: dict[str, Any]


def coverage(repetitions: int, n_audits: int, seed: int) -> Table:
    """Tabulate how often 95 % intervals contain the truth."""
    import pandas as pd

    caption = (
        "95 % intervals of approxmcmc.bias where the bias is known: of a t-test on eight enumerated states, for each "
        "site, and of draws N(mean + shift, spread^2) for a posterior N(mean, 1), for the mean and the square about "
        "it. Coverage: the smallest over estimands, with its Clopper-Pearson interval."
    )
    rows = [_row(case, repetitions, n_audits, seed) for case in (*enumerable(), *map(canonical, LAWS))]
    return Table("Coverage where the bias is known", caption, pd.DataFrame(rows))


def _row(case: Case, repetitions: int, n_audits: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    held = []
    z = []
    for k in range(repetitions):
        dims = ("chain", "draw", "site")
        draws = case.draw(rng, n_audits)
        posterior = xr.Dataset({case.variable: (dims[: draws.ndim], draws)})
        trace = xr.DataTree.from_dict({"posterior": posterior})
        estimate = amc.bias(trace, case.target, case.sampler, n_audits=n_audits, random_seed=k, **case.how)
        lower, upper = (estimate[f"bias_{end}"].values[: case.truth.size] for end in ("lower", "upper"))
        held.append((lower <= case.truth) & (case.truth <= upper))
        z.append((0.5 * (lower + upper) - case.truth) / ((upper - lower) / (2.0 * 1.96)))
    hits = int(np.sum(held, axis=0).min())
    lower, upper = clopper_pearson(hits, repetitions, 0.95)
    return {
        "case": case.name,
        "largest bias": float(np.abs(case.truth).max()),
        "repetitions": repetitions,
        "audits": n_audits,
        "coverage": hits / repetitions,
        "coverage_lower": float(lower),
        "coverage_upper": float(upper),
        "rms z": float(np.sqrt(np.mean(np.square(z)))),
    }


# --- enumerable chains ---


@functools.cache
def field() -> "amc.targets.BinaryMRF":
    """Return a field of three binary sites whose pairs have two factors each."""
    rng = np.random.default_rng(2)
    return amc.targets.BinaryMRF(3, [[0, 1], [1, 2], [0, 2]] * 2, rng.normal(size=(6, 2, 2)))


def enumerable() -> list[Case]:
    """Return cases of the t-test: on single sites by both forms of `bias`, and in Gibbs sweeps."""
    sites = amc.MetropolisHastings(amc.proposals.SingleSite(), TEST)
    asked = (("single sites, t-test", sites, "audit"), ("single sites, t-test", sites, "drift"))
    return [_enumerated(*each) for each in (*asked, ("Gibbs, t-test", amc.Gibbs(TEST), "drift"))]


def _enumerated(name: str, sampler: Any, form: str) -> Case:
    states = grid_of_points(field(), None)
    exact = np.exp(field().log_density(states))
    law = stationary_distribution(amc.bounds.transition_matrix(field(), sampler, method="enumerate").to_numpy())
    truth = law @ states - exact @ states / exact.sum()

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return states[rng.choice(len(states), p=law, size=(1, n))].astype(np.int64)

    (variable,) = field().variables.shapes
    return Case(f"{name}, form {form}", field(), sampler, variable, draw, truth, {"form": form})


# --- the canonical normal model ---


@functools.cache
def normal_mean() -> "amc.FunctionTarget":
    """Return the posterior of a normal mean with a wide prior: nearly N(mean of x, 1 / N)."""
    x = np.random.default_rng(0).normal(size=N)
    return amc.FunctionTarget(_normal_term, _wide_prior, data=x, n_obs=N, dim=1, var_names=("mu",))


def _normal_term(theta: Any, data: Any, i: int) -> Any:
    return -0.5 * (data[0][i] - theta[0]) ** 2


def _wide_prior(theta: Any) -> Any:
    return -0.5 * (theta[0] / 10.0) ** 2


def canonical(law: tuple[float, float]) -> Case:
    """Return the case of normal draws with this shift from the posterior's mean, in its sds, and this ratio of sds."""
    shift, spread = law
    precision = N + 0.01
    mean = float(normal_mean().observed_data["data_0"].sum()) / precision
    sd = precision**-0.5
    truth = np.array([shift * sd, (spread**2 - 1.0 - shift**2) * sd**2])

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return mean + sd * (shift + spread * rng.standard_normal((1, n)))

    kernel = amc.MetropolisHastings(amc.RandomWalk(2.4 * sd), amc.ExactTest())
    return Case(
        f"normal, shift {shift:g}, spread {spread:g}", normal_mean(), None, "mu", draw, truth, {"kernel": kernel}
    )
