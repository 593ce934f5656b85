"""What a component becomes when it is built for a target: compiled functions, and a state that they read and write.

The functions are compiled by `approxmcmc.engine.compiler.compile.compiled`, or plain where nothing is compiled.

The state is a named tuple. It holds what was settled at set-up (numbers, arrays, function pointers) and the arrays that
belong to one chain, all by name: ``state.upper``, ``state.log_factor[0]``. What changes from step to step lies in
arrays, of one element where it is a number.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class CompiledProposal(NamedTuple):
    """A proposal built for a target.

    ``propose(rng, state, theta, out, count) -> float`` writes theta' to `out` and returns ``log q(theta|theta') - log
    q(theta'|theta)``. ``move`` writes the same theta' and returns 0, for steps that go untested; None where the ratio
    costs nothing. ``adapt(state, acceptance, step)`` learns from a tuning step, where there is anything to learn.
    `make_state` returns the state of a new chain, `describe` tells what a state has learnt, ``restore(state, told)``
    gives that to another one, and `explain` why a proposal is NaN where its gradient is not the reason. What has
    `adapt` must have both `describe` and `restore`: stored draws are audited with the steps that made them.
    ``weight(state) -> float`` is the weight of the draw just made; None where draws weigh the same. ``forget(state)``
    is for samplers whose density changes between proposals; None where the proposal has a memory that it cannot give
    up, and no `forget` is needed where it has none. ``settle(state, accepted)`` tells it after each decision whether
    what it proposed was accepted: for a proposal whose next one depends on more than theta, such as a velocity that an
    accepted trajectory carries on; None where it does not. theta alone cannot tell: another member of a mixture may
    have moved it since. A sampler that decides calls it, or refuses such a proposal. `refresh` draws anew,
    at the next proposal, what a chain holds besides theta, such as a velocity, from its law: for steps that do not
    follow one another. `records` names the
    members of `OPTIONAL_COUNTS` and `VALUE_NAMES` that it fills, `attrs` says what set-up cost, as ``setup_*``.

    ``couple(rng, state, other, x, y, x_new, y_new, noise, count) -> (log q ratio of X, of Y)`` proposes for two chains
    together so that they meet: X as `propose` does, with the same numbers of `rng`; Y by the same law given y; the
    same point for both as often as it can, and always once x = y. `other` is the state of Y, `noise` (2, dim) scratch.
    None where no coupling is known.
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
    """An acceptance test built for the numbers that it samples.

    ``decide(rng, evidence, threshold, log_rest, state, count, value) -> (decision, log_ratio)`` answers whether
    log_rest + sum_i l_i lies above the threshold: 1, 0, or -1 where a log density was NaN, with the log ratio or its
    estimate. It reads terms through `evidence` alone, and books what it read in `count`. ``threshold(rng) -> float``
    and ``probability(log_ratio) -> float`` are its rule. ``audit(rng, evidence, threshold, log_rest, state, value)``
    decides on all data; None for the sampler's own, which suits every test whose answer is not random on purpose.
    ``log_likelihood(state) -> float`` tells the log-likelihood at the current theta where the test keeps it, which is
    then exact; ``keep_log_likelihood(state, total)`` gives it that of a start. A test that never errs is not audited;
    one that asks for no ratio gets none. `attrs` says what set-up found, as ``setup_*``.

    ``threshold_form(rng, table, log_rest, state) -> float`` reads a table of the terms (`engine.term_table`) and
    returns the log ratio Lambda^ whose comparison is the decision for *every* u: with this order of the data the test
    accepts iff threshold < Lambda^; NaN where a log density was NaN. None where there is no such number: an audit then
    repeats decisions. ``state_at(step)`` makes the state before a step of that number, for a test that changes along
    the chain; None where `make_state` does. ``is_tested(state) -> bool``, asked once as each step begins, says whether
    it will be tested; one that is not goes where it is proposed to go. None where all steps are tested.
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
    """Two chains of one exact kernel that move together until they meet, each by the kernel's own law.

    ``move(rng, chains, shared, n_chains) -> status`` makes one step of both chains, or with ``n_chains=1`` of the first
    alone, with the same numbers. ``start(theta, log_likelihood)`` makes a chain at theta, a named tuple with `theta`
    and `proposed`; the log-likelihood is NaN where it is not known yet. ``shared()`` makes what both chains use:
    `counts`, and `look`, the log ratio of what the first chain proposed while alone, and by how much the log density
    would change. ``density(chain)`` is the log density at its state; None where the kernel does not know it. `point` is
    a theta, for the types; `cost_per_pass` the evaluations that make one pass; `rule` that by which it accepts.
    """

    name: str
    move: Callable[..., int]
    start: Callable[[np.ndarray, float], Any]
    shared: Callable[[], Any]
    point: np.ndarray
    cost_per_pass: float
    rule: str
    density: Callable[..., float] | None = None
