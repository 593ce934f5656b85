"""The minibatch Barker test run again and again at one pair of states, and the same test written from the textbook."""

import dataclasses

import numpy as np
from scipy.special import ndtr

from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.batches import BATCH, batch_kernel, log_terms_type
from approxmcmc.engine.compile import MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.order import rows_order


def scaled_term(theta, data, i):
    """Return theta times the i-th number: between theta = 0 and theta' = 1 the differences are the numbers."""
    (terms,) = data
    return terms[i] * theta[0]


def _repeat(
    uniform, rng, log_terms, data, n_obs, theta, proposed, log_rest, order, work, params, state, count, value, out
):
    for r in range(out.shape[0]):
        count[:] = 0
        value[:] = 0.0
        threshold = THRESHOLD(uniform)  # noqa: F821 (bound)
        decision, log_odds = TEST(  # noqa: F821 (bound)
            rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest, order, work, params, state, count, value
        )
        out[r, 0] = decision
        out[r, 1] = ACCEPTANCE_PROBABILITY(log_odds)  # noqa: F821 (bound)
        out[r, 2] = count[READ]  # noqa: F821 (bound)


@dataclasses.dataclass(frozen=True)
class Population:
    """Stands in for a target where only the number of data counts."""

    n_obs: int


def repeat(test, terms, log_rest, repeats, seed, log_terms=None, data=None, theta=None, proposed=None):
    """Ask `test` `repeats` times about one pair of states; return decisions, acceptance probabilities, data read.

    The pair is given by its terms l_i; or by a kernel, its data and two thetas.
    """
    n_obs = len(terms)
    part = test.build_test(Population(n_obs))
    data = (np.ascontiguousarray(terms),) if data is None else data
    log_terms = batch_kernel(scaled_term, data) if log_terms is None else log_terms
    uniform, rng = (np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(2))
    arguments = (
        uniform, rng, log_terms, data, n_obs, np.zeros(1) if theta is None else theta,
        np.ones(1) if proposed is None else proposed, float(log_rest), rows_order(n_obs), np.empty((3, BATCH)),
        part.params, np.zeros(1), np.zeros(len(COUNT_NAMES), np.int64), np.zeros(len(VALUE_NAMES)),
        np.empty((repeats, 3)),
    )  # fmt: skip
    kernel = bind(_repeat, _signature(arguments), cache=False, **_functions(part))
    kernel(*arguments)
    return arguments[-1].T


def _functions(part):
    names = ("TEST", "THRESHOLD", "ACCEPTANCE_PROBABILITY")
    read = COUNT_NAMES.index("datapoints_touched")
    return {**{name: part.functions[name] for name in names}, "READ": read}


def _signature(arguments):
    from numba import config
    from numba import types as nb

    if config.DISABLE_JIT:
        return None
    generator, data, order, params = (type_of(arguments[k]) for k in (0, 3, 8, 10))
    return nb.void(
        generator, generator, log_terms_type(data), data, nb.int64, VECTOR, VECTOR, nb.float64, order, MATRIX,
        params, VECTOR, nb.Array(nb.int64, 1, "C"), VECTOR, MATRIX,
    )  # fmt: skip


def acceptance_probability(seen, n_obs, log_rest, *, target_variance=1.0, temperature=1.0):
    """Return A given the terms seen, or None when their variance asks for more: one look of the textbook test."""
    n = len(seen)
    estimates = log_rest + n_obs / temperature * seen
    if n == n_obs:
        return 1.0 / (1.0 + np.exp(-estimates.mean()))
    variance = ((estimates - estimates.mean()) ** 2).sum() / (n * (n - 1)) * (1.0 - n / n_obs)
    if variance >= target_variance:
        return None
    correction = correction_distribution(np.sqrt(target_variance))
    z = (estimates.mean() + correction.atoms) / np.sqrt(target_variance - variance)
    return float(correction.weights @ ndtr(z))
