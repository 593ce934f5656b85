"""Minibatch Barker on a million data: two modes, a tempered likelihood, and five acceptance tests.

Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for Metropolis-Hastings, UAI, section 6.1: the
mixture with tied means of Welling and Teh (2011), N = 10^6, temperature 10^4, so that the posterior is as wide as that
of 100 data. Which test gives most effective samples for each datum that it reads, and for each second?
"""

import functools
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Gold, Study, knob, vary
from approxmcmc.study.report import Table
from approxmcmc.study.report.intervals import mean_interval
from studies.tools.acceptance_functions import acceptance_functions
from studies.tools.efficiency import acceptance_error, effective_samples

SCALE = 0.3  # standard deviation of the random walk


@functools.cache
def mixture(n_obs: int) -> "amc.targets.GaussianMixture":
    """Return the posterior given data simulated at (0, 1), tempered to the information of 100 data."""
    return amc.targets.GaussianMixture.simulated(n_obs, temperature=n_obs / 100.0, random_seed=2017)


def million() -> "amc.targets.GaussianMixture":
    """Return the paper's target."""
    return mixture(1_000_000)


def smaller() -> "amc.targets.GaussianMixture":
    """Return the target of preset quick."""
    return mixture(200_000)


def small() -> "amc.targets.GaussianMixture":
    """Return the target of preset smoke."""
    return mixture(10_000)


def barker(target_variance: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the random walk with the minibatch Barker test, the paper's sampler."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.acceptance.MinibatchBarker(target_variance, batch_size))


def austerity(epsilon: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the random walk with the sequential test of Korattikara, Chen and Welling (2014)."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.SequentialTTest(epsilon, batch_size))


def bernstein(delta: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the random walk with the empirical Bernstein test and the range of the terms read: no bound is known.

    This range may be too small, so the test's guarantee does not hold: the audits of the report measure its error.
    """
    return amc.MetropolisHastings(
        amc.RandomWalk(SCALE), amc.acceptance.BernsteinTest(delta, batch_size, range="observed")
    )


def exact(rule: str) -> "amc.MetropolisHastings":
    """Return the random walk with the test on all data, by Metropolis' or by Barker's rule."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.ExactTest(rule))


def right_mode(posterior: Any) -> Any:
    """Return 1 for draws with theta2 > 0, the mode that the data come from, else 0; each has probability near 1/2."""
    return (posterior["theta2"] > 0.0).astype(float)


def distance_of_means(posterior: Any) -> Any:
    """Return |theta2|, which the two modes share."""
    return abs(posterior["theta2"])


def start(target: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a point near one of the two modes."""
    mode = np.array([0.0, 1.0]) if rng.random() < 0.5 else np.array([1.0, -1.0])
    return mode + 0.3 * rng.standard_normal(2)


def by_quadrature(target: Any, *, chains: int, draws: int, random_seed: int, **_: Any) -> Any:
    """Return the exact moments, by quadrature on a grid, and draws from the grid."""
    how = {"n_points": 201, "chains": chains, "draws": draws, "random_seed": random_seed}
    return amc.reference.grid_reference(target.log_density(), target.variables, target.bounds, **how)


def grid(results: Any) -> list[Table]:
    """Tabulate means and standard deviations of each sampler, and the exact ones by quadrature on a grid."""
    import pandas as pd

    rows = []
    for name in results.study.targets:
        moments = by_quadrature(results.target(name), chains=1, draws=1, random_seed=0)["reference_moments"]
        rows.append({"sampler": "exact, by quadrature"} | {p: float(moments[p].sel(moment="mean")) for p in _NAMES}
                    | {f"sd of {p}": float(moments[p].sel(moment="sd")) for p in _NAMES})  # fmt: skip
        for (of, label), traces in results.traces().items():
            if of == name:
                row: dict[str, Any] = {"sampler": label}
                for p in _NAMES:
                    row |= mean_interval(float(t.posterior[p].mean()) for t in traces).columns(p)
                    row |= mean_interval(float(t.posterior[p].std()) for t in traces).columns(f"sd of {p}")
                rows.append(row)
    caption = (
        "Means and standard deviations of one chain, averaged over replicates, with Student intervals; the first row "
        "has no Monte Carlo error."
    )
    return [Table("Moments against quadrature", caption, pd.DataFrame(rows))]


_NAMES = ("theta1", "theta2")
EXACT = Gold(chains=4, draws=50_000, by=by_quadrature)  # its draws estimate means of functions

study = Study(
    name="barker_mixture",
    reference="Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test, section 6.1",
    names={
        "austerity": "t-test",
        "barker": "Barker",
        "bernstein": "Bernstein",
        "distance_of_means": "distance of means",
        "exact": "exact",
        "right_mode": "right mode",
    },
    targets={"mixture": million},
    samplers={
        "barker": vary(barker, target_variance=knob(0.25, 0.81, 1.0), batch_size=100),
        "austerity": vary(austerity, epsilon=knob(0.0, 0.005, 0.05), batch_size=100),
        "bernstein": vary(bernstein, delta=knob(0.01, 0.1), batch_size=100),
        "exact": vary(exact, rule=knob("metropolis", "barker")),
    },
    estimands={"right_mode": right_mode, "distance_of_means": distance_of_means},
    budget=Budget(seconds=300.0),
    audit_every=2000,
    replicates=8,
    gold=EXACT,
    seed=2017,
    start=start,
    analyses=(effective_samples, acceptance_error, grid, acceptance_functions),
    presets={
        "smoke": {
            "targets": {"mixture": small},
            "budget": Budget(draws=500),
            "audit_every": 20,
            "replicates": 2,
            "gold": Gold(chains=2, draws=500, tune=500),
        },
        "quick": {
            "targets": {"mixture": smaller},
            "budget": Budget(seconds=6.0),
            "audit_every": 200,
            "replicates": 3,
            "gold": Gold(
                chains=4,
                draws=2000,
                tune=500,
                gates=amc.reference.Gates(
                    max_r_hat=1.02, min_bulk_ess=1_000, min_tail_ess=1_000, max_relative_mcse=0.05
                ),
            ),
        },
        "published": {"like": "quick", "replicates": 5, "gold": EXACT},
    },
)
