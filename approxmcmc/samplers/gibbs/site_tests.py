"""Which acceptance tests can decide the sites of a discrete target."""

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import AcceptanceTest, CompiledConditionals, CompiledTest, DiscreteTarget, Population
from approxmcmc.errors import IncompatibleError


def build_tests(
    test: AcceptanceTest, target: DiscreteTarget, conditionals: CompiledConditionals
) -> tuple[CompiledTest, ...]:
    """Return one test for each number of terms that a site can have, ascending, or refuse sites that it cannot decide.

    What only an exact test can decide: sites of several states, and sites of a single term.
    """
    kind, sizes = type(test).__name__, np.unique(conditionals.n_terms)
    exact = isinstance(test, ExactTest)
    if not exact and conditionals.n_states.max() > 2:
        site = int(np.argmax(conditionals.n_states))
        raise IncompatibleError(
            f"Gibbs: {kind} decides between two states, site {site} of {target!r} has "
            f"{conditionals.n_states[site]}; use ExactTest"
        )
    if not exact and sizes[0] < 2:
        site = int(np.argmin(conditionals.n_terms))
        raise IncompatibleError(
            f"Gibbs: {kind} needs at least 2 terms per site, site {site} of {target!r} has {sizes[0]}; use ExactTest"
        )
    tests = tuple(test.build_test(Population(int(size), same_terms=False)) for size in sizes)
    if not tests[0].uses_ratio:
        raise IncompatibleError(f"Gibbs: {kind} ignores the terms, and a conditional is made of them; use ExactTest")
    return tests
