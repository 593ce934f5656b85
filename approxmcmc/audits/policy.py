"""The number of audits of a run, by time; they are made after the chains finish.

A pilot of 3 to 20 audits estimates the mean seconds t_a of one audit, without the first; the pilot's results are not
used. With S the seconds of sampling, the number of audits is

    n = max(S / (10 t_a), min(100, max(S / t_a, 20)), min(50, T' / t_a), min(400, T / t_a)),

and at most the number of kept draws. So audits and their pilot take a tenth of the sampling time, but at least 100
audits are planned. If 100 would take longer than the chains took, as many are planned as fit into S, at least 20. After
a short run these may be few: up to 50, the least number for a verdict, are always planned if they fit into T' = 1 s,
and up to 400 if they fit into a negligible T = 0.3 s. (With 100 audits, one run in three passes although its draws are
spread 15 % too widely, for a chain with an autocorrelation time of 20 steps.) n is fixed before the first audit that
counts; only a time limit or Ctrl-C makes it smaller, and then a random part of the audits is kept. The audited draws
are a systematic sample over chains and draws with a random offset.

If the library chose the sampler, 50 takes the place of 20 in this formula, and the estimated cost of a biased candidate
includes 50 audits.

If 50 audits would not fit into T', the audits after the pilot may read few rows (`TestedSteps.on_few_rows`).

Stored draws are audited in the same way, for the requested seconds or the requested number.
"""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Auditor, Chain, SamplingResult
from approxmcmc.contracts.records import AUDIT_COUNTS, ENOUGH_AUDITS
from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.errors import SamplingWarning, warn

SHARE = 0.1  # share of the sampling time that audits may take
# numbers of audits in the formula of the module
PLENTY = 400
WANTED = 100
FEWEST = 20
UNNOTICED = 0.3  # seconds, a negligible time
LEAST = 1.0  # seconds that audits may take to reach a verdict, even after a short run
FEWEST_OF_PILOT = 3
MOST_OF_PILOT = 20
SHARE_OF_PILOT = 0.01


def time_for_draws(time_limit: float | None, chains: Sequence[Chain]) -> float | None:
    """Return the seconds that the chains may use: the time limit / 1.1, or all of it if some chain is not audited."""
    if time_limit is None or any(chain.auditor is None for chain in chains):
        return time_limit
    return time_limit / (1.0 + SHARE)


def number_of_audits(
    seconds: float, seconds_of_one: float, n_draws: int, *, pilot: float = 0.0, fewest: int = FEWEST
) -> int:
    """Return n by the formula of this module.

    `seconds` is S, `seconds_of_one` is t_a, `pilot` the seconds of the pilot, which are part of the tenth, and `fewest`
    stands for 20 in the formula.

    Examples
    --------
    >>> number_of_audits(10.0, 0.001, 40_000), number_of_audits(1.0, 0.005, 40_000), number_of_audits(1.0, 0.1, 40_000)
    (1000, 100, 20)
    """
    in_share = (SHARE * seconds - pilot) / seconds_of_one
    fitting = seconds / seconds_of_one
    unnoticed = min(PLENTY, UNNOTICED / seconds_of_one)
    telling = min(ENOUGH_AUDITS, LEAST / seconds_of_one)
    return min(int(max(in_share, min(WANTED, max(fitting, fewest)), telling, unnoticed)), n_draws)


class Policy(NamedTuple):
    """How many audits to make.

    ``number(seconds of one audit, seconds of the pilot, draws)`` returns the number. The pilot makes 3 audits, and more
    until `pilot` seconds have passed, at most 20.
    """

    number: Callable[[float, float, int], int]
    pilot: float = 0.0


def by_sampling_time(seconds: float, fewest: int = FEWEST) -> Policy:
    """Return the policy of `sample`, the formula of this module, for a run whose sampling took `seconds`."""
    return Policy(
        lambda of_one, pilot, n_draws: number_of_audits(seconds, of_one, n_draws, pilot=pilot, fewest=fewest),
        SHARE_OF_PILOT * seconds,
    )


def within(seconds: float) -> Policy:
    """Return the policy to audit for `seconds`, pilot included: at least 20 audits, at most one for each draw."""
    return Policy(
        lambda of_one, pilot, n_draws: min(max(int((seconds - pilot) / of_one), FEWEST), n_draws),
        SHARE_OF_PILOT * seconds,
    )


def exactly(n_audits: int) -> Policy:
    """Return the policy that makes the given number of audits, at most one for each draw."""
    return Policy(lambda of_one, pilot, n_draws: min(n_audits, n_draws))


def audit_draws(
    result: SamplingResult,
    chains: Sequence[Chain],
    rng: np.random.Generator,
    *,
    tune: int,
    thin: int,
    deadline: float | None = None,
    fewest: int = FEWEST,
) -> SamplingResult:
    """Audit the draws of a run by the policy of `sample`; return `result` with the records and attributes of `audit`.

    If a chain has no auditor, `result` is returned unchanged. `rng` chooses the draws to audit; at least `fewest` are
    planned however long they take. `deadline` is the value of `limit_clock` after which no audit starts.
    """
    makers = [chain.auditor for chain in chains]
    auditors = [make(result.draws[k]) for k, make in enumerate(makers) if make is not None and result.draws.shape[1]]
    if any(make is None for make in makers):
        return result
    policy = by_sampling_time(result.attrs["sampling_time"], fewest)
    records, attrs = audit(result.draws, auditors, policy, rng, tune=tune, thin=thin, deadline=deadline)
    return result._replace(stats={**result.stats, **records}, attrs={**result.attrs, **attrs})


def audit(
    draws: np.ndarray,
    auditors: Sequence[Auditor],
    policy: Policy,
    rng: np.random.Generator,
    *,
    tune: int,
    thin: int,
    deadline: float | None = None,
) -> tuple[Mapping[str, np.ndarray], Mapping[str, Any]]:
    """Audit draws of shape (chains, draws, dim), with an auditor for each chain.

    Kept draw t is the state after step ``tune + (t + 1) * thin``. Returns the records, arrays (chains, draws) by name,
    NaN or for counts 0 at draws without an audit; and attributes for the trace: the numbers of audits planned and made,
    the share of the rows that an audit read, the seconds. An error raised by an audit becomes a warning.
    """
    n_chains, n_draws = shape = draws.shape[:2]
    records: dict[str, np.ndarray] = {}
    failures: list[Exception] = []

    def audit_some(places: np.ndarray, book: bool, auditors: Sequence[Auditor]) -> tuple[float, int]:
        """Audit draws ``place = chain * n_draws + draw``; return the seconds, and the number of audits that succeeded.

        With `book`, the results are stored in `records`.
        """
        started = time.perf_counter()
        succeeded = 0
        for chain, auditor in enumerate(auditors):
            chosen = places[places // n_draws == chain] % n_draws
            try:
                steps = auditor.of_many(draws[chain, chosen], tune + (chosen + 1) * thin) if chosen.size else []
            except Exception as error:  # the draws are kept, and the error is reported below
                failures.append(error)
                continue
            for draw, audited in zip(chosen, steps, strict=True):
                succeeded += audited is not None
                for name, value in (audited or {}).items() if book else ():
                    if name not in records:
                        records[name] = np.zeros(shape, np.int64) if name in AUDIT_COUNTS else np.full(shape, np.nan)
                    records[name][chain, draw] = value
        return time.perf_counter() - started, succeeded

    started = time.perf_counter()
    wants = [auditor.at_once for auditor in auditors]
    at_once = sum(wants) if max(wants, default=1) > 1 else 1  # one audit at a time if batches do not help
    planned, done, share = _audit_all(audit_some, auditors, n_chains * n_draws, policy, rng, deadline, at_once)
    if failures:
        warn(
            f"audits raised errors and do not count, the first {_in_words(failures[0])}. The draws are kept; {done} of "
            f"{planned} planned audits succeeded. Correct errors in your own functions; any other error is a "
            "defect of approxmcmc: please report it",
            SamplingWarning,
        )
    return records, {
        "audit_policy": "auto",
        "audit_every": round(n_chains * n_draws * thin / done) if done else 0,
        "audits": done,
        "audits_planned": planned,
        "audit_share": share,
        "audit_seconds": time.perf_counter() - started,
    }


def _in_words(error: Exception) -> str:
    """Return the error's type, message, and the function, file and line that raised it, as one phrase."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"a {type(error).__name__} in {frame.name}, {Path(frame.filename).name} line {frame.lineno}: {error}"


def _audit_all(
    audit_some: Callable[[np.ndarray, bool, Sequence[Auditor]], tuple[float, int]],
    auditors: Sequence[Auditor],
    n_draws: int,
    policy: Policy,
    rng: np.random.Generator,
    deadline: float | None,
    at_once: int,
) -> tuple[int, int, float]:
    """Run the pilot, then the audits, `at_once` at a time.

    Returns how many audits were planned, how many succeeded, and the share of the rows that an audit read.
    """
    done = planned = 0
    try:
        if not n_draws:
            return planned, done, 1.0
        pilot: list[float] = []
        while len(pilot) < FEWEST_OF_PILOT or (sum(pilot) < policy.pilot and len(pilot) < MOST_OF_PILOT):
            if _late(deadline, max(pilot, default=0.0)):
                return planned, done, 1.0
            pilot.append(audit_some(rng.integers(n_draws, size=1), False, auditors)[0])
        seconds_of_one = sum(pilot[1:]) / (len(pilot) - 1)  # the first one fills caches
        if ENOUGH_AUDITS * seconds_of_one > LEAST and (few := on_few_rows(auditors)) is not auditors:
            auditors = few
            seconds_of_one = audit_some(rng.integers(n_draws, size=1), False, auditors)[0]
        planned = policy.number(seconds_of_one, sum(pilot), n_draws)
        places = ((np.arange(planned) + rng.random()) * n_draws / planned).astype(np.int64)
        places = rng.permutation(places)  # in random order: a time limit then leaves no part of the run without audits
        for start in range(0, planned, at_once):
            if _late(deadline, seconds_of_one):
                break
            batch = places[start : start + at_once]
            done += audit_some(batch, True, auditors)[1]
    except KeyboardInterrupt:  # keep the draws and the audits made
        pass
    return planned, done, max((auditor.share for auditor in auditors), default=1.0)


def on_few_rows(auditors: Sequence[Auditor]) -> Sequence[Auditor]:
    """Return auditors that read few rows; `auditors` themselves if the auditor of any chain needs all rows."""
    few = [auditor.on_few_rows() for auditor in auditors]
    return auditors if any(before is other for before, other in zip(few, auditors, strict=True)) else few


def _late(deadline: float | None, seconds: float) -> bool:
    return deadline is not None and limit_clock() + seconds > deadline
