"""All pairings whose law is put under test: derived from the roles and the one table of examples.

A pairing is a sampler and the worlds in which it may run; the first world that does not refuse the sampler is used.
With Metropolis-Hastings every proposal meets every test, each pairing in the next one of the forms that a target can
have, so that proposals and tests meet all forms. A proposal that remembers something is mixed with every other kind.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import CompiledProposal, Proposal, Sampler
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests.examples import PROPOSALS, SAMPLERS, TARGETS, TESTS
from tests.pairings.worlds import ROWS, WORLDS

FORMS = ("LogisticRegression", "ControlVariate", "ControlVariate, influential rows")
FIELDS = ("BinaryMRF", "BayesianNetwork")
MEETS = {  # the worlds of samplers that are no Metropolis-Hastings; a sampler without an entry tries all of them
    "BouncyParticle": ("LogisticRegression",),
    "Exchange": ("ERGM", "Ising"),
    "Firefly": ("LogisticRegression", "BoundedLikelihood"),
    "Gibbs": FIELDS,
    "MALAExchange": ("ERGM", "Ising"),
    "PoissonGibbs": FIELDS,
    "PseudoMarginal": ("EstimatedLikelihood",),
    "SliceSampler": FORMS,
    "ZigZag": ("LogisticRegression",),
}
EXACT = {  # settings at which samplers of the examples leave the law invariant
    "Exchange": [amc.Exchange(amc.RandomWalk(0.5))],
    "MALAExchange": [amc.samplers.MALAExchange(0.2)],
    "SliceSampler": [
        amc.samplers.SliceSampler(amc.samplers.Slice(0.5)),
        amc.samplers.SliceSampler(amc.samplers.Slice(0.5, directions="coordinates")),
    ],
}
# Targets that one pairing suffices to test.
OTHERS = sorted(set(WORLDS) - {*FORMS, *FIELDS, "ERGM", "Ising", "EstimatedLikelihood"})
LIMITS = [  # approximate tests at the settings where they read all rows
    amc.SequentialTTest(0.0, 4),
    amc.acceptance.MinibatchBarker(batch_size=1000),
    amc.acceptance.AnnealedEpsilon((0.0,), steps=()),
]
INVARIANT = [test for test in [*itertools.chain(*TESTS.values()), *LIMITS] if test.leaves_invariant(ROWS)]
GROUPS = (*PROPOSALS, *(name for name in SAMPLERS if name != "MetropolisHastings"), "targets")


class Pairing(NamedTuple):
    """A sampler, and the worlds where it may be run, in the order in which they are tried."""

    group: str
    sampler: Sampler
    worlds: tuple[str, ...]

    def __str__(self) -> str:
        """Name the sampler."""
        return f"{self.group}: {self.sampler!r}"


def pairings(group: str) -> Iterator[Pairing]:
    """Yield the pairings of a group; each is judged, or refused with a message."""
    if group in PROPOSALS:
        yield from of_proposal(group)
    if group == "Mixture":
        yield from of_mixtures()
    if group in SAMPLERS:
        yield from of_sampler(group)
    if group == "targets":
        walk = amc.MetropolisHastings(amc.RandomWalk(0.4), amc.ExactTest())
        yield from (Pairing(group, walk, (name,)) for name in OTHERS)


def of_proposal(name: str) -> Iterator[Pairing]:
    """Yield the first example of a kind of proposal that may have a test with all tests, others with the exact test."""
    place, tested = list(PROPOSALS).index(name), with_ratio(name)
    worlds = FIELDS if tested.proposes_states else FORMS
    for t, test in enumerate(INVARIANT):
        yield Pairing(name, amc.MetropolisHastings(tested, test), rotated(worlds, place + t))
    for k, example in enumerate(each for each in PROPOSALS[name] if each is not tested):
        yield Pairing(name, amc.MetropolisHastings(example, amc.ExactTest()), rotated(worlds, place + k))


def of_mixtures() -> Iterator[Pairing]:
    """Yield mixtures of each proposal that remembers with every other kind."""
    target = TARGETS["ControlVariate, influential rows"]()
    built = {name: compiled(examples[0], target) for name, examples in PROPOSALS.items()}
    remembering = [name for name, each in built.items() if each is not None and remembers(each)]
    for p, one in enumerate(remembering):
        for k, other in enumerate(PROPOSALS):
            if other not in (one, "Mixture", "SingleSite"):
                mixture = amc.proposals.Mixture(
                    [PROPOSALS[one][-1], with_ratio(other)]
                )  # the last example remembers longest
                yield Pairing("Mixture", amc.MetropolisHastings(mixture, amc.ExactTest()), rotated(FORMS, p + k))


def with_ratio(name: str) -> Proposal:
    """Return the first example of a kind of proposal that has a density ratio; the first of all if none has one."""
    target = TARGETS["ControlVariate, influential rows"]()
    examples = PROPOSALS[name]
    return next((example for example in examples if compiled(example, target) is not None), examples[0])


def compiled(proposal: Proposal, target: Any) -> CompiledProposal | None:
    """Return a proposal built for a target; None if it raises that it does not fit."""
    try:
        return proposal.build_proposal(target)
    except (IncompatibleError, InvalidInputError):
        return None


def remembers(proposal: CompiledProposal) -> bool:
    """Return whether the proposal's next step depends on more than theta, or on what it has cached."""
    return proposal.settle is not None or proposal.forget is not None


def of_sampler(name: str) -> Iterator[Pairing]:
    """Yield the examples of a sampler in all its worlds, and with every proposal and test if it has such settings."""
    worlds = MEETS.get(name, tuple(WORLDS))
    for example in [*SAMPLERS[name], *EXACT.get(name, ())]:
        yield from (Pairing(name, example, (world,)) for world in worlds)
        settings = {field.name for field in dataclasses.fields(example)}
        has_proposal = "proposal" in settings and isinstance(example.proposal, Proposal)
        moves = [{"proposal": each[0]} for each in PROPOSALS.values()] if has_proposal else [{}]
        tests = [{"test": each[0]} for each in TESTS.values()] if "test" in settings else [{}]
        for m, move in enumerate(moves):
            for t, test in enumerate(tests):
                try:
                    sampler = dataclasses.replace(example, **move, **test)
                except (IncompatibleError, InvalidInputError):
                    continue
                yield Pairing(name, sampler, rotated(worlds, m + t))


def rotated(worlds: tuple[str, ...], start: int) -> tuple[str, ...]:
    """Return the worlds rotated to begin with the one at `start`."""
    return tuple(np.roll(worlds, -start).tolist())


def world_of(pairing: Pairing, data_sets: Any) -> str | None:
    """Return the first world whose target is not refused and whose law the sampler leaves invariant; None without one.

    `data_sets(world)` returns its targets and their posteriors.
    """
    for world in pairing.worlds:
        target = data_sets(world)[0][0]
        try:
            pairing.sampler.build(target, audit_every=None)
        except (IncompatibleError, InvalidInputError):
            continue
        if pairing.sampler.leaves_invariant(target):
            return world
    return None
