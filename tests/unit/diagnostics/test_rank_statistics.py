"""R-hat and effective sample sizes are ArviZ's, bit by bit, whatever the draws look like."""

import arviz_stats as az
import numpy as np
import pytest

from approxmcmc.diagnostics.rank_statistics import bulk_ess, rank_r_hat, tail_ess


def walks(chains, draws, parameters, memory, seed):
    """Return autoregressive chains of some memory, from -1 to 1."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, draws, parameters))
    for t in range(1, draws):
        noise[:, t] += memory * noise[:, t - 1]
    return noise


CASES = {
    "slow": walks(4, 1000, 5, 0.98, 1),
    "independent": walks(4, 500, 5, 0.0, 2),
    "antithetic": walks(2, 401, 5, -0.9, 3),
    "random walk": walks(4, 333, 3, 1.0, 4),
    "five chains": walks(5, 250, 3, 0.5, 5),
    "many chains": walks(11, 120, 3, 0.7, 6),
    "one chain": walks(1, 1000, 3, 0.9, 7),
    "rounded": np.round(walks(4, 400, 4, 0.9, 8)),
    "two values": (walks(4, 400, 4, 0.9, 9) > 1.0).astype(float),
    "one value": np.concatenate([np.full((4, 100, 1), 0.1), walks(4, 100, 1, 0.5, 10)], axis=2),
    "chains apart": walks(4, 200, 3, 0.5, 11) + 50.0 * np.arange(4)[:, None, None],
    "stuck chain": np.concatenate([np.zeros((1, 300, 2)), walks(3, 300, 2, 0.5, 12)]),
    "each chain at its value": np.broadcast_to(np.arange(4.0)[:, None, None], (4, 100, 1)),
    "trend": walks(4, 300, 2, 0.1, 13) + 0.1 * np.arange(300)[:, None],
    **{f"{draws} draws": walks(4, draws, 6, 0.3, 20 + draws) for draws in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13)},
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_are_those_of_arviz(case):
    draws = CASES[case]
    with np.errstate(all="ignore"):
        assert np.array_equal(bulk_ess(draws), np.atleast_1d(az.ess(draws, method="bulk")), equal_nan=True)
        assert np.array_equal(
            tail_ess(draws), np.atleast_1d(az.ess(draws, method="tail", prob=(0.05, 0.95))), equal_nan=True
        )
        if len(draws) > 1:
            assert np.array_equal(rank_r_hat(draws), np.atleast_1d(az.rhat(draws)), equal_nan=True)


def test_are_those_of_arviz_on_random_chains():
    rng = np.random.default_rng(99)
    for seed in range(60):
        draws = walks(*rng.integers((1, 4, 1), (6, 60, 3)), rng.uniform(-1.0, 1.0), 1000 + seed)
        with np.errstate(all="ignore"):
            assert np.array_equal(bulk_ess(draws), np.atleast_1d(az.ess(draws, method="bulk")), equal_nan=True)


def test_are_missing_where_a_draw_is():
    draws = walks(4, 100, 2, 0.5, 1)
    draws[2, 7, 1] = np.nan
    for measure in (rank_r_hat, bulk_ess, tail_ess):
        with np.errstate(invalid="ignore"):
            assert list(np.isnan(measure(draws))) == [False, True]
