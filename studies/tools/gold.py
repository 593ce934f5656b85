"""A gold standard for preset ``quick``: fewer draws of NUTS, and gates to match, which the page states."""

from approxmcmc.reference import Gates
from approxmcmc.study import Gold

QUICK = Gold(
    chains=4,
    draws=1000,
    tune=500,
    gates=Gates(max_r_hat=1.02, min_bulk_ess=1_500, min_tail_ess=1_000, max_relative_mcse=0.03),
)
