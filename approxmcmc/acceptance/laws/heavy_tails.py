"""Do heavy-tailed terms break a t-test? How much one term weighs in what a decision has read.

With l_i the n terms read, and s_l their standard deviation, the trace records max_i |l_i - mean| / (s_l sqrt(n)) of
each decision that stopped early. It tends to 0 where the central limit theorem holds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

HEAVIEST_TERM = 0.5  # a term that alone makes up half of the spread at the stop breaks the theorem
SHARE_OF_HEAVY_DRAWS = 0.1
# Of residuals and terms, var r / var l over data: well below it at the mode of any problem that control variates pay
# for. Such residuals are cubes: heavy-tailed, and so small that few decisions feel it. Audits judge them.
VARIANCE_RATIO = 0.05


def share_of_heavy_draws(stats: "xr.Dataset") -> float:
    """Return in which share of the draws one term outweighed `HEAVIEST_TERM` of the spread; 0 for small residuals."""
    if "audited_kurtosis" in stats:  # audits have seen all terms, and tell whether their tails matter
        return 0.0
    small_residuals = stats.attrs.get("setup_variance_ratio", 1.0) <= VARIANCE_RATIO
    if "max_term_ratio" not in stats or not stats.sizes["draw"] or small_residuals:
        return 0.0
    return float((stats["max_term_ratio"] > HEAVIEST_TERM).mean())
