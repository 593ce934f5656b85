"""One acceptance test asked again and again about one population of terms."""

import dataclasses
from typing import Any

import numpy as np
from numba import config
from numba import types as nb
from scipy import stats

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, CompiledTermRange
from approxmcmc.engine.batches import BATCH, batch_kernel, log_terms_type
from approxmcmc.engine.compile import MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.order import rows_order
from approxmcmc.engine.term_range import constant_range


def scaled_term(theta, data, i):
    """Return theta times the i-th number: between theta = 0 and theta' = 1 the differences are the numbers."""
    (terms,) = data
    return terms[i] * theta[0]


@dataclasses.dataclass(frozen=True)
class Population:
    """Stands in for a target: its terms are known, and so is their range."""

    terms: Any

    @property
    def n_obs(self):
        return len(self.terms)

    def compile_term_range(self):
        return CompiledTermRange(constant_range(), np.array([float(np.ptp(self.terms))]))


def _ask(rng, log_terms, data, n_obs, theta, proposed, mu_0, order, work, params, state, count, value, out):
    for r in range(out.shape[0]):
        count[:] = 0
        decision, _ = TEST(  # noqa: F821 (bound)
            rng, log_terms, data, n_obs, theta, proposed, n_obs * mu_0, 0.0, order, work, params, state, count, value
        )
        out[r, 0] = decision
        out[r, 1] = count[READ]  # noqa: F821 (bound)


def ask(test, terms, mu_0, repeats, seed, decide=None):
    """Ask whether the mean of `terms` exceeds `mu_0`; return decisions and numbers of terms read, shape (repeats,).

    `decide` replaces the test's own decision function: a place for planted bugs.
    """
    terms = np.ascontiguousarray(terms, dtype=np.float64)
    part = test.build_test(Population(terms))
    data, n_obs = (terms,), len(terms)
    arguments = (
        np.random.default_rng(seed), batch_kernel(scaled_term, data), data, n_obs, np.zeros(1), np.ones(1),
        float(mu_0), rows_order(n_obs), np.empty((3, BATCH)), part.params, np.zeros(4),
        np.zeros(len(COUNT_NAMES), np.int64), np.zeros(len(VALUE_NAMES)), np.empty((repeats, 2)),
    )  # fmt: skip
    functions = {"TEST": decide or part.functions["TEST"], "READ": COUNT_NAMES.index("datapoints_touched")}
    bind(_ask, _signature(arguments), cache=decide is None, **functions)(*arguments)
    return arguments[-1].T


def _signature(arguments):
    if config.DISABLE_JIT:
        return None
    generator, data, order, params = (type_of(arguments[k]) for k in (0, 2, 7, 9))
    return nb.void(
        generator, log_terms_type(data), data, nb.int64, VECTOR, VECTOR, nb.float64, order, MATRIX, params, VECTOR,
        nb.Array(nb.int64, 1, "C"), VECTOR, MATRIX,
    )  # fmt: skip


def log_normal(n_obs: int, log_sd: float) -> np.ndarray:
    """Return the quantiles of a log-normal law: a population whose mean a sample without its tail underestimates."""
    return np.exp(log_sd * stats.norm.ppf((np.arange(n_obs) + 0.5) / n_obs))


def threshold(terms: np.ndarray, mu_std: float) -> float:
    """Return the mu_0 that lies `mu_std` standardised distances below the mean of the terms."""
    return float(terms.mean() - mu_std * terms.std() / np.sqrt(len(terms) - 1))
