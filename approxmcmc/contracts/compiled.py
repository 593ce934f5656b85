"""What a component becomes when it is built for a target: compiled functions, and the state that they read and write.

The functions are compiled by `approxmcmc.engine.compiler.compile.compiled`, or plain Python where no compiler is used.

The state is a named tuple. It holds the results of set-up (numbers, arrays, function pointers) and the arrays of one
chain, all by name: ``state.upper``, ``state.log_factor[0]``. Values that change from step to step are in arrays, of one
element for a single number.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class CompiledProposal(NamedTuple):
    """A proposal built for a target.

    ``propose(rng, state, theta, out, count) -> float`` writes theta' to `out` and returns ``log q(theta|theta') - log
    q(theta'|theta)``. ``move`` writes the same theta' and returns 0, for steps without a test; None if the ratio costs
    nothing. ``adapt(state, acceptance, step)`` learns from a tuning step; None without tuning. `make_state` returns the
    state of a new chain, `describe` the tuned values of a state, ``restore(state, described)`` writes them to another
    one, and `explain` says why a proposal is NaN if its gradient is not the reason. A proposal with `adapt` must have
    both `describe` and `restore`: stored draws are audited with the steps that made them. ``weight(state) -> float`` is
    the weight of the last draw; None if all draws weigh the same. ``forget(state)`` clears cached values, for samplers
    with a density that changes between proposals; None if the proposal has a memory that it cannot clear; not needed
    without a memory. ``settle(state, accepted)`` is called after each decision, for a proposal that needs more than
    theta, such as a velocity that an accepted trajectory continues; None otherwise. theta alone does not tell whether
    the proposal was accepted, because another member of a mixture may have moved it since. A sampler with decisions
    calls it, or rejects such a proposal. `refresh` redraws at the next proposal what a chain holds besides theta, such
    as a velocity, from its distribution: for steps that do not follow one another. `records` names the members of
    `OPTIONAL_COUNTS` and `VALUE_NAMES` that it fills, `attrs` is the cost of set-up, as ``setup_*``.

    ``couple(rng, state, other, x, y, x_new, y_new, noise, count) -> (log q ratio of X, of Y)`` proposes for two chains
    together so that they meet: X as `propose` does, with the same numbers of `rng`; Y from the same proposal given y;
    the same point for both as often as it can, and always once x = y. `other` is the state of Y, `noise` (2, dim)
    scratch. None if no coupling is known.
    """

    propose: Callable[..., float]
    make_state: Callable[[], Any]
    adapt: Callable[..., None] | None = None
    describe: Callable[[Any], Mapping[str, float]] = lambda state: {}
    restore: Callable[[Any, Mapping[str, float]], None] | None = None
    explain: Callable[[Any], str] = lambda state: ""
    weight: Callable[..., float] | None = None
    forget: Callable[..., None] | None = None
    settle: Callable[[Any, bool], None] | None = None
    couple: Callable[..., tuple[float, float]] | None = None
    refresh: Callable[[Any], None] = lambda state: None
    move: Callable[..., float] | None = None
    records: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = {}


class CompiledTest(NamedTuple):
    """An acceptance test compiled for the terms of one target.

    ``decide(rng, evidence, threshold, log_rest, state, count, value) -> (decision, log_ratio)`` decides whether
    log_rest + sum_i l_i exceeds the threshold: 1, 0, or -1 if a log density was NaN, with the log ratio or its
    estimate. It reads terms only through `evidence`, and counts what it read in `count`. ``threshold(rng) -> float``
    and ``probability(log_ratio) -> float`` are its rule. ``audit(rng, evidence, threshold, log_rest, state, value)``
    decides on all data; None for the sampler's own, which suits every test without deliberate randomness.
    ``log_likelihood(state) -> float`` returns the log-likelihood at the current theta if the test caches it, which is
    then exact; ``keep_log_likelihood(state, total)`` stores that of a start. A test that never errs is not audited; one
    that does not use the ratio gets none. `attrs` holds the results of set-up, as ``setup_*``.

    ``threshold_form(rng, table, log_rest, state) -> float`` reads a table of the terms (`engine.term_table`) and
    returns the log ratio Lambda^ that decides for *every* u: with this order of the data the test accepts iff threshold
    < Lambda^; NaN if a log density was NaN. None if there is no such number: an audit then repeats decisions.
    ``state_at(step)`` makes the state before a step of that number, for a test that changes along the chain; None if
    `make_state` does. ``is_tested(state) -> bool``, called once at the beginning of each step, says whether the step is
    tested; an untested step accepts. None if all steps are tested.
    """

    decide: Callable[..., tuple[int, float]]
    make_state: Callable[[], Any]
    threshold: Callable[[np.random.Generator], float]
    probability: Callable[[float], float]
    audit: Callable[..., int] | None = None
    log_likelihood: Callable[..., float] | None = None
    keep_log_likelihood: Callable[..., None] | None = None
    threshold_form: Callable[..., float] | None = None
    state_at: Callable[[int], Any] | None = None
    is_tested: Callable[[Any], bool] | None = None
    uses_ratio: bool = True
    is_audited: bool = True
    records: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = {}


class CompiledCoupling(NamedTuple):
    """Two chains of one exact kernel that move together until they meet; each chain alone follows the kernel.

    ``move(rng, chains, shared, n_chains) -> status`` makes one step of both chains, or with ``n_chains=1`` only of the
    first, with the same random numbers. ``start(theta, log_likelihood)`` makes a chain at theta, a named tuple with
    `theta` and `proposed`; the log-likelihood is NaN if unknown. ``shared()`` makes the state that both chains use:
    `counts`, and `look`, the log ratio of the last proposal of the first chain alone, and the change of the log
    density. ``density(chain)`` is the log density at its state; None if the kernel does not compute it. `point` is a
    theta, for its type; `cost_per_pass` the number of evaluations in one pass; `rule` the acceptance rule.
    """

    name: str
    move: Callable[..., int]
    start: Callable[[np.ndarray, float], Any]
    shared: Callable[[], Any]
    point: np.ndarray
    cost_per_pass: float
    rule: str
    density: Callable[..., float] | None = None
