"""The exact members of the noisy family recover a posterior that is known; those that are broken on purpose do not.

Each test runs R independent chains from exact draws of the posterior, keeps the last state of each, and compares their
mean, and the mean of their squares, with the exact ones: R independent draws, so the standard error is known without
any estimate of an autocorrelation. |z| < 5 in both: false-fail rate 1.2e-6 per test. A bias of 0.2 posterior standard
deviations gives z = 0.2 sqrt(4000) = 12.6 in the mean, and one of 15 % in the variance about z = 6.7: false-pass rates
below 1e-13 and 0.05.
"""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    estimate_from_draws,
    log_normalizer_ratio,
    make_draw_rows,
    make_estimate_from_fresh_draws,
)
from approxmcmc.samplers.auxiliary_variable.langevin import make_drift_and_return
from tests.intractable import by_inversion, five_values
from tests.planting import plain, plant

pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit]

CHAINS, STEPS = 4000, 12
GRID = np.linspace(-3.0, 5.0, 8001)
EXACT = {
    "exchange": amc.Exchange(amc.RandomWalk(1.0)),
    "MALA-exchange": amc.samplers.MALAExchange(0.8, False, 2),
    "refreshed MALA-exchange": amc.samplers.MALAExchange(0.8, False, 2, refresh=True),
}


def z_scores(sampler) -> tuple[float, float]:
    """Return the standardised errors of mean and second moment after `STEPS` steps from the posterior."""
    target = five_values()
    log_p = target.log_posterior(GRID)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ GRID
    square, fourth = p @ (GRID - mean) ** 2, p @ (GRID - mean) ** 4
    program = sampler.build(target, audit_every=None)
    sequences, _ = seed_sequences(20160401, CHAINS)
    ends = np.empty(CHAINS)
    starts = np.random.default_rng(20160402).choice(GRID, size=CHAINS, p=p)
    out = np.empty((STEPS, 1)), np.empty((STEPS, len(COUNT_NAMES)), np.int64), np.empty((STEPS, len(VALUE_NAMES)))
    for k, (start, sequence) in enumerate(zip(starts, sequences, strict=True)):
        program.start(np.array([start]), streams(sequence), 0).advance(STEPS, 1, *out)
        ends[k] = out[0][-1, 0]
    second = np.mean((ends - mean) ** 2)
    return (
        float((ends.mean() - mean) / np.sqrt(square / CHAINS)),
        float((second - square) / np.sqrt((fourth - square**2) / CHAINS)),
    )


@pytest.mark.parametrize("name", EXACT)
def test_exact_samplers_leave_the_posterior_invariant(name):
    assert max(map(abs, z_scores(EXACT[name]))) < 5.0


def draw_at_theta(rng, state, theta, proposed, count):
    plain_draw(rng, theta, state.simulator, state.drawn, count)
    return plain_estimate(rng, state, theta, proposed, count)


def no_ratio_of_normalizers(theta, proposed, statistics):
    return 0.0


def no_way_back(streams, state, theta, proposed, count):
    return 0.0 * plain_move(streams, state, theta, proposed, count)


plain_draw, plain_estimate = plain(make_draw_rows(by_inversion)), plain(estimate_from_draws)
plain_move = plain(make_drift_and_return(by_inversion, False))
BUGS = {
    "auxiliary data at theta": ({make_estimate_from_fresh_draws(by_inversion): draw_at_theta}, "exchange"),
    "auxiliary data ignored": ({log_normalizer_ratio: no_ratio_of_normalizers}, "exchange"),
    "no density of the way back": ({make_drift_and_return(by_inversion, False): no_way_back}, "MALA-exchange"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_rejected(bug, monkeypatch):
    wrong, case = BUGS[bug]
    plant(monkeypatch, wrong)
    assert max(map(abs, z_scores(EXACT[case]))) > 5.0


# --- the Florentine network ---


def test_exchange_with_exact_draws_finds_the_florentine_posterior():
    """Eight chains; z over their means. Student's law with 7 degrees of freedom: |t| < 12 fails falsely at 6e-6.

    The published long-run reference, (-2.675, 0.188), is 0.8 and 1.1 posterior standard deviations away; the standard
    error of the mean of eight chains is about 0.03 of them, so t would be near 30.
    """
    from approxmcmc.datasets import florentine_business

    target = amc.targets.ERGM(florentine_business().adjacency, statistics=("edges", "two_stars"), prior_scale=np.inf)
    covariance = 1.44 * np.array([[0.23, -0.042], [-0.042, 0.0108]])
    trace = amc.sample(
        target, amc.Exchange(amc.RandomWalk(covariance), auxiliary="exact"), draws=1500, tune=50, chains=8,
        random_seed=1434, initvals=np.array([-2.27, 0.07]), audit_every=None, progressbar=False,
    )  # fmt: skip
    theta = trace.posterior["theta"].values
    for k, (mean, sd) in enumerate(((-2.2704, 0.4797), (0.0695, 0.1040))):
        means = theta[..., k].mean(axis=1)
        t = (means.mean() - mean) / (means.std(ddof=1) / np.sqrt(8))
        assert abs(t) < 12.0, f"statistic {k}: mean {means.mean():.4f}, exact {mean}"
        assert theta[..., k].std() == pytest.approx(sd, rel=0.12)
