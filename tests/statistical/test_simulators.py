"""Simulators of auxiliary data against exact moments, by independent draws.

Each test compares mean and variance of s(y) over n independent draws with the exact ones and fails beyond |z| = 5:
false-fail rate 5.7e-7 for each number. The standard error of the variance comes from the fourth moment of the draws.
Planted bug: coupling from the past with fresh numbers after a doubling. Most lattices hide it (z < 4 at 3 x 3); a row
of four at theta = 0.5 does not.
"""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.datasets import florentine_business
from approxmcmc.engine.compiler.compile import allocating
from approxmcmc.targets.ising.exact import backward_simulator, moments
from approxmcmc.targets.ising.simulators import couple_from_the_past, coupling_simulator
from tests.edited_source import edited
from tests.simulation import draw_many

pytestmark = pytest.mark.statistical
Z = 5.0


def z_scores(draws, mean, variance):
    """Return deviations of mean and variance of independent draws in units of their standard errors."""
    n, centred = len(draws), draws - mean
    of_mean = centred.mean() / math.sqrt(variance / n)
    of_variance = ((centred**2).mean() - variance) / ((centred**2).std() / math.sqrt(n))
    return np.array([of_mean, of_variance])


def heat_bath(rows, columns):
    lattice = np.ones((rows, columns))
    return amc.targets.Ising(lattice, prior_scale=1.0).build_simulator(
        amc.targets.AuxiliaryChain(400 * rows * columns, "both")
    )


ISING = {
    "backward 3 x 3": (backward_simulator, (3, 3), 0.4, 100_000),
    "backward 4 x 4, negative": (backward_simulator, (4, 4), -0.3, 100_000),
    "backward 16 x 16": (backward_simulator, (16, 16), 0.4, 5_000),
    "coupling 1 x 4": (coupling_simulator, (1, 4), 0.5, 100_000),
    "coupling 3 x 3": (coupling_simulator, (3, 3), 0.4, 100_000),
    "coupling 4 x 5, negative": (coupling_simulator, (4, 5), -0.3, 30_000),
    "coupling 16 x 16": (coupling_simulator, (16, 16), 0.2, 3_000),
    "heat bath 4 x 4": (heat_bath, (4, 4), 0.4, 30_000),
    "heat bath 3 x 5, negative": (heat_bath, (3, 5), -0.4, 30_000),
    "heat bath 16 x 16": (heat_bath, (16, 16), 0.3, 5_000),
}


@pytest.mark.parametrize("name", ISING)
def test_ising_draws_have_the_exact_moments(name, rng):
    make, shape, theta, n_draws = ISING[name]
    draws, _ = draw_many(make(*shape), theta, n_draws, rng)
    assert np.abs(z_scores(draws[:, 0], *moments(theta, *shape))).max() < Z


def test_coupling_with_fresh_numbers_is_found(rng):
    wrong = "longer[: uniforms.shape[0]] = uniforms", "uniforms = uniforms[:0]"
    broken = coupling_simulator(1, 4)._replace(simulate=allocating(edited(couple_from_the_past, *wrong)))
    draws, _ = draw_many(broken, 0.5, 100_000, rng)  # E s 1.48 instead of 1.386, 19 standard errors
    scores = z_scores(draws[:, 0], *moments(0.5, 1, 4))
    assert np.abs(scores).max() > 2 * Z


# Means of (edges, two-stars) at n = 16 by central differences of log Z, see tests/oracle/test_ergm.py.
FLORENTINE = [((-2.0, 0.0), (14.304, 23.872)), ((-3.0, 0.18), (8.075, 9.219)), ((-2.675, 0.188), (16.936, 60.505))]
LONG = {
    "exact": "exact",
    "dyad": amc.targets.AuxiliaryChain(6_000, "empty", "dyad"),
    "tnt": amc.targets.AuxiliaryChain(6_000, "empty", "tnt"),
    "tnt, full": amc.targets.AuxiliaryChain(6_000, "full", "tnt"),
}


def florentine():
    return amc.targets.ERGM(florentine_business().adjacency, ("edges", "two_stars"), prior_scale=1.0)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(("theta", "means"), FLORENTINE)
def test_graphs_have_the_exact_means(name, theta, means, rng):
    if theta == FLORENTINE[2][0] and name != "exact":
        pytest.skip("two phases: see the next test")
    draws, _ = draw_many(florentine().build_simulator(LONG[name]), theta, 8_000, rng)
    error = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - means) < Z * error + 6e-4).all()


def test_short_chains_miss_the_dense_phase(rng):
    """At (-2.675, .188) the exact mean is 16.9 edges; after 1000 toggles from the empty graph it is 15.0."""
    draws, _ = draw_many(
        florentine().build_simulator(amc.targets.AuxiliaryChain(1_000, "empty")), FLORENTINE[2][0], 4_000, rng
    )
    error = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
    assert (FLORENTINE[2][1] - draws.mean(axis=0) > 2 * Z * error).all()


@pytest.mark.parametrize("statistics", [("edges", "triangles"), ("edges", "two_stars", "three_stars", "triangles")])
@pytest.mark.parametrize("move", ["dyad", "tnt"])
def test_triangles_on_six_nodes(statistics, move, rng):
    target = amc.targets.ERGM(florentine_business().adjacency[2:8, 2:8], statistics, prior_scale=1.0)
    theta = np.array([-0.7, *[0.15] * (len(statistics) - 1)])
    mean, cov = target._exact.moments(theta)
    draws, _ = draw_many(target.build_simulator(amc.targets.AuxiliaryChain(501, "both", move)), theta, 20_000, rng)
    assert (np.abs(draws.mean(axis=0) - mean) < Z * np.sqrt(np.diag(cov) / len(draws))).all()


BOX = [(-6.5, 0.5), (-0.6, 0.7)], (113, 131)
WIDE = [(-8.0, 3.0), (-1.2, 0.6)], (177, 181)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("region", "mean", "sd"),
    [(BOX, ("-2.2704", "0.0695"), ("0.4797", "0.1040")), (WIDE, ("-2.2702", "0.0695"), ("0.4802", "0.1042"))],
)
def test_the_florentine_posterior_under_the_flat_prior(region, mean, sd):
    """No randomness: 28 and 60 s of elimination on a grid of steps 0.0625 x 0.01. The box cuts a tail of 1e-4."""
    bounds, sizes = region
    axes = [np.linspace(low, high, size) for (low, high), size in zip(bounds, sizes, strict=True)]
    thetas = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    target = amc.targets.ERGM(florentine_business().adjacency, ("edges", "two_stars"), prior_scale=np.inf)
    log_density = target.log_densities(thetas)
    weights = np.exp(log_density - log_density.max())
    found = weights @ thetas / weights.sum()
    spread = np.sqrt(weights @ (thetas - found) ** 2 / weights.sum())
    assert tuple(f"{x:.4f}" for x in found) == mean
    assert tuple(f"{x:.4f}" for x in spread) == sd
