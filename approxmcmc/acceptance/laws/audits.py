"""Judge a test by the records of a finished run: count wrong decisions, predict their number, and find heavy tails.

An audit repeats a decision on all data. With w wrong decisions of n audited, the rate lies above the lower limit of
Clopper and Pearson (1934), the root of P(Binomial(n, rate) >= w) = 0.001, with 99.9 % confidence.

With l_i the n terms read, and s_l their standard deviation, the trace records max_i |l_i - mean| / (s_l sqrt(n)) for
each decision that stopped early. This ratio tends to 0 if the central limit theorem holds. If it does not, the terms
are heavy-tailed, and a t-test may err more often than computed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from approxmcmc.acceptance.laws.early_stops import tolerance_stop_error
from approxmcmc.acceptance.laws.looks import look_sizes
from approxmcmc.acceptance.laws.recursion import sequential_test_error

if TYPE_CHECKING:
    import xarray as xr

SMALLEST_RUN = 50  # audited decisions
# A test's error probability falls smoothly with |mu_std|: interpolated on these 65 points it is off by at most .002, or
# 1.6 % of its value.
MU_STD_GRID = np.linspace(0.0, 6.0, 65) + 1e-9
HEAVIEST_TERM = 0.5  # if one term makes up half of the spread, the central limit theorem does not hold
SHARE_OF_HEAVY_DRAWS = 0.1
# Residuals r (terms minus control variates) count as small if var r / var l over the data is at most this, with l the
# terms. They are nearly cubic: heavy-tailed, but so small that the tails affect few decisions, which audits check.
VARIANCE_RATIO = 0.05


class WrongDecisions(NamedTuple):
    """The number of wrong decisions, the number of audited decisions, and a lower limit of the rate of wrong ones.

    `lower` has 99.9 % confidence; it is 0 if no decision was wrong or fewer than 50 were audited.
    """

    wrong: int
    audited: int
    lower: float

    def __str__(self) -> str:
        """Return the numbers as the beginning of a sentence."""
        return (
            f"{self.wrong} of {self.audited} audited decisions were wrong (a rate above {self.lower:.3f} with 99.9 % "
            "confidence)"
        )


def wrong_decisions(stats: "xr.Dataset") -> WrongDecisions:
    """Count the wrong decisions of a run; with too few audits the lower limit of the rate is 0.

    A run whose test cannot be audited, such as the second stage of `DelayedAcceptance`, counts 0 of 0.
    """
    if "decisions_audited" not in stats:
        return WrongDecisions(0, 0, 0.0)
    wrong = int(stats["wrong_decisions"].sum())
    audited = int(stats["decisions_audited"].sum())
    judged = wrong > 0 and audited >= SMALLEST_RUN
    return WrongDecisions(wrong, audited, float(betaincinv(wrong, audited - wrong + 1, 0.001)) if judged else 0.0)


def expected_errors(stats: "xr.Dataset", *, epsilon: float, tol: float, **looks: Any) -> np.ndarray | None:
    """Return the predicted error probability of each draw's audited sequential t-test; None without audits.

    Each audit records mu_std, the log ratio minus the threshold in units of tau (see `contracts.acceptance`); in the
    Gaussian regime the error depends on the data only through mu_std. A stop by the tolerance `tol` of
    `SequentialTTest` adds the error of a near tie, which is no sign of heavy tails. If the trace has an ``epsilon`` for
    a draw, it replaces `epsilon`. `looks` holds `batch_size`, `growth` and `boundary_shape`. Return None also if
    ``tol > 0`` and only kept draws are audited: then the stop and the audit of a draw belong to different decisions.
    """
    if "audited_mu_std" not in stats or (tol > 0.0 and stats.attrs.get("audit_policy") == "auto"):
        return None
    mu_std = np.abs(np.asarray(stats["audited_mu_std"]))
    epsilons = np.asarray(stats["epsilon"] if "epsilon" in stats else np.full_like(mu_std, epsilon))
    audited = np.isfinite(mu_std) & np.isfinite(epsilons)  # epsilon is NaN if the draw was not tested
    if not audited.any():
        return None
    looks["n_obs"] = int(stats.attrs["n_obs"])
    expected = np.zeros_like(mu_std)
    for audited_epsilon in np.unique(epsilons[audited]):
        at_epsilon = audited & (epsilons == audited_epsilon)
        expected[at_epsilon] = _at(
            mu_std[at_epsilon], sequential_test_error(MU_STD_GRID, epsilon=audited_epsilon, **looks)["error"].values
        )
    if tol > 0.0 and "tolerance_stops" in stats:
        expected += _errors_of_stops(stats, mu_std, epsilons, looks)
    return np.where(audited, expected, np.nan)


def _errors_of_stops(
    stats: "xr.Dataset", mu_std: np.ndarray, epsilons: np.ndarray, looks: Mapping[str, Any]
) -> np.ndarray:
    """Return how much stops by tolerance add to the probability of a wrong decision, for each draw.

    For a draw with several decisions it is half of the share of its decisions that stopped by tolerance.
    """
    decisions, stops = (np.asarray(stats[name]) for name in ("decisions_made", "tolerance_stops"))
    alone = (decisions == 1) & (stops == 1) & np.isfinite(mu_std)
    sizes = look_sizes(looks["n_obs"], looks["batch_size"], looks["growth"])
    look_of = np.searchsorted(
        sizes, np.asarray(stats["datapoints_touched"]) - stats.attrs.get("setup_influential_rows", 0)
    )
    error = 0.5 * (stops / np.maximum(decisions, 1))
    for epsilon, look in {*zip(epsilons[alone].tolist(), look_of[alone].tolist(), strict=True)}:
        at_look = alone & (epsilons == epsilon) & (look_of == look)
        error[at_look] = _at(mu_std[at_look], tolerance_stop_error(MU_STD_GRID, look, epsilon=epsilon, **looks))
    return error


def _at(mu_std: np.ndarray, curve: np.ndarray) -> np.ndarray:
    return np.interp(np.minimum(mu_std, MU_STD_GRID[-1]), MU_STD_GRID, curve)


def share_of_heavy_draws(stats: "xr.Dataset") -> float:
    """Return the share of draws in which one term makes up more than half of the spread of the terms read.

    0 if audits have checked the tails on all data, or the terms are residuals with a small variance.
    """
    if "audited_kurtosis" in stats:  # audits read all terms, and show whether their tails matter
        return 0.0
    small_residuals = stats.attrs.get("setup_variance_ratio", 1.0) <= VARIANCE_RATIO
    if "max_term_ratio" not in stats or not stats.sizes["draw"] or small_residuals:
        return 0.0
    return float((stats["max_term_ratio"] > HEAVIEST_TERM).mean())
