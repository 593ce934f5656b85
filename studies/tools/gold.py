"""Gold standards that several studies share: NUTS with weaker checks (stated on the page), and long exact chains."""

from typing import Any

from approxmcmc.reference import Gates, exact_chain_reference
from approxmcmc.reference.exact_chain import influential_rows_kernel, langevin_kernel
from approxmcmc.study import Gold
from studies.tools.in_laplace_metric import laplace_of

CONFIRMING_DRAWS = 10_000  # most draws of a confirming chain: its Langevin steps read all rows
# Three of the four chains then have more than ten draws for each of the 1539 control variates of Covertype.
SCORED_DRAWS = 24_000


def long_exact_chain(target: Any, **how: Any) -> Any:
    """Return long exact chains on influential rows; chains of exact Langevin steps on all rows must agree with them."""
    how["second_draws"] = min(how["draws"], CONFIRMING_DRAWS)
    return exact_chain_reference(
        target, influential_rows_kernel(target), langevin_kernel(laplace_of(target)), cores=1, **how
    )


def precise_exact_chain(target: Any, **how: Any) -> Any:
    """Return the same chains with gradients at twelve times the draws: means and variances become more precise."""
    return long_exact_chain(target, scored_draws=SCORED_DRAWS, **how)


QUICK = Gold(
    chains=4,
    draws=1000,
    tune=500,
    gates=Gates(max_r_hat=1.02, min_bulk_ess=1_500, min_tail_ess=1_000, max_relative_mcse=0.03),
)
BY_CORE_ROWS = Gold(chains=4, draws=5000, by=long_exact_chain)
