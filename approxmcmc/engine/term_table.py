"""Terms that are known already, as an evidence that looks them up.

A test reads terms through its evidence alone. Where all N differences l_i of a pair of states are known, a table stands
in for the target: one more decision about the pair costs what it reads in look-ups and no evaluation, and as tables of
all targets have one type, the test is compiled once for them.
"""

import numpy as np

from approxmcmc.engine.batches import Data, datum_at, log_terms_type
from approxmcmc.engine.compile import kernel, type_of
from approxmcmc.engine.evidence import Evidence, new_evidence
from approxmcmc.engine.order import rows_order
from approxmcmc.engine.vectors import equal


def tabulated_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write 0 at the first state of the pair and l_i at the other; data = (l, first state)."""
    differences, here = data
    at_here = equal(theta, here)
    for place in range(lo, hi):
        out[place - lo] = 0.0 if at_here else differences[datum_at(order, place)]


def table_of_terms(n_obs: int, dim: int) -> Evidence:
    """Return the evidence on a pair of states of length `dim` that `write_pair` has yet to write; read in rows."""
    data = (np.zeros(n_obs), np.zeros(dim))
    log_terms = kernel(tabulated_terms, log_terms_type(type_of(data)).signature)
    return new_evidence(log_terms, data, n_obs, np.zeros(dim), np.zeros(dim), rows_order(n_obs))


def write_pair(table: Evidence, theta: np.ndarray, proposed: np.ndarray, differences: np.ndarray) -> None:
    """Let a table hold the terms of this pair, l_i = log p(x_i | theta') - log p(x_i | theta), shape (n_obs,)."""
    terms, here = table.data
    terms[:], here[:], table.theta[:], table.proposed[:] = differences, theta, theta, proposed
