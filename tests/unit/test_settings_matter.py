"""Every setting has an effect: another value gives other draws, counts or outputs, or an error that names it.

The tables are made from the signatures of all public components and of `sample`. A field of a component is changed by a
rule of its type: a flag is inverted, a number grows, an absent number becomes .4; `OTHER` has values where no rule
fits. `RUNS` says how a component is run, and `BASE` with which other settings, because some need others.
"""

import concurrent.futures
import dataclasses
import functools
import inspect
import itertools

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import BernsteinTest, MinibatchBarker, SequentialTTest
from approxmcmc.errors import ApproxMCMCError, IncompatibleError, InvalidInputError
from approxmcmc.proposals import (
    StochasticGradientLangevin,
)
from approxmcmc.samplers import ExplicitResampling, Slice, SliceSampler
from approxmcmc.sampling import progress
from tests.examples import EXAMPLES, TARGETS
from tests.models import logistic
from tests.unit.contracts.test_components import public_components

WALK = amc.RandomWalk(0.3)
BASE_SAMPLER = amc.MetropolisHastings(WALK, amc.ExactTest())
FOREIGN = {
    name for name, (example, *_) in EXAMPLES.items() if type(example).__module__.startswith("approxmcmc.whole_chains")
}
# Components of other libraries, whose runs take seconds, and `Laplace`, a result that `laplace` returns.
LEFT_OUT = FOREIGN | {"NUTS", "Laplace"}


@functools.cache
def target(name):
    """Return an example of a target, made once."""
    return logistic(400, 2) if name == "many rows" else TARGETS[name]()


@functools.cache
def pairs():
    """Return a field in which each of five sites has four factors; `Gibbs` may cache its log odds."""
    factors = list(itertools.combinations(range(5), 2))
    tables = np.random.default_rng(0).normal(size=(len(factors), 2, 2))
    return amc.targets.BinaryMRF(5, factors, tables)


def moved_by(proposal, test=None, on="LogisticRegression"):
    """Return a target and the sampler of Metropolis and Hastings."""
    return target(on), amc.MetropolisHastings(proposal, amc.ExactTest() if test is None else test)


def always(proposal):
    """Return a target and a sampler without a test."""
    return moved_by(proposal, amc.acceptance.AlwaysAccept(), on="many rows")


def judged_by(test):
    """Return a target with many rows and a random walk with this test."""
    return moved_by(amc.RandomWalk(0.05), test, on="many rows")


# How a component is run: a function of the component that returns target and sampler.
RUNS = {
    "AdaptiveDirection": lambda proposal: (target("ERGM"), amc.Exchange(proposal)),
    "AnnealedEpsilon": judged_by,
    "AuxiliaryChain": lambda auxiliary: (target("ERGM"), amc.Exchange(WALK, n_auxiliary=3, auxiliary=auxiliary)),
    "BernsteinTest": judged_by,
    "BouncyParticle": lambda sampler: (target("LogisticRegression"), sampler),
    "DecreasingStep": lambda step: always(StochasticGradientLangevin(step, 4)),
    "DelayedAcceptance": lambda test: moved_by(WALK, test, on="ControlVariate, influential rows"),
    "ExactTest": judged_by,
    "Exchange": lambda sampler: (target("ERGM"), sampler),
    "ExplicitResampling": lambda z: (target("LogisticRegression"), amc.Firefly(WALK, bound="untuned", z_update=z)),
    "Firefly": lambda sampler: (target("LogisticRegression"), sampler),
    "Gibbs": lambda sampler: (pairs(), sampler),
    "ImplicitResampling": lambda z: (target("LogisticRegression"), amc.Firefly(WALK, bound="untuned", z_update=z)),
    "MALAExchange": lambda sampler: (target("ERGM"), sampler),
    "MetropolisHastings": lambda sampler: (target("LogisticRegression"), sampler),
    "MinibatchBarker": judged_by,
    "NoisyLangevin": lambda sampler: (target("ERGM"), sampler),
    "NoisyMetropolisHastings": lambda sampler: (target("EstimatedRatio"), sampler),
    "PoissonGibbs": lambda sampler: (target("BinaryMRF"), sampler),
    "PseudoMarginal": lambda sampler: (target("EstimatedLikelihood"), sampler),
    "SequentialTTest": judged_by,
    "Slice": lambda move: (target("LogisticRegression"), SliceSampler(move)),
    "SliceSampler": lambda sampler: (target("LogisticRegression"), sampler),
    "StochasticGradientFisherScoring": always,
    "StochasticGradientHamiltonian": always,
    "StochasticGradientLangevin": always,
    "StochasticGradientNoseHoover": always,
    "StochasticGradientZigZag": always,
    "SurrogateTransition": lambda proposal: (
        target("ControlVariate, influential rows"),
        amc.MetropolisHastings(proposal),
    ),
    "TunaTest": lambda test: moved_by(amc.RandomWalk(0.002), test, on="many rows"),
    "ZigZag": lambda sampler: (target("LogisticRegression"), sampler),
}
MATRIX = np.array([[1.0, 0.5], [0.5, 2.0]])
OTHER_LAPLACE = amc.numerics.Laplace(np.ones(2), 0.2 * np.eye(2))
# Values of fields that no rule fits: by field, or by component and field.
OTHER = {
    "auxiliary": amc.targets.AuxiliaryChain(7),
    "control_variate": np.array([0.3, 0.1]),
    "cov": MATRIX,
    "directions": "coordinates",
    "fit": OTHER_LAPLACE,
    "order": "blocks",
    "preconditioner": MATRIX,
    "proposal": amc.RandomWalk(0.2),
    "scan": "random",
    ("AnnealedEpsilon", "epsilons"): (0.2, 0.0),
    ("AnnealedEpsilon", "steps"): (30,),
    ("AnnealedEpsilon", "test"): SequentialTTest(batch_size=8),
    ("AuxiliaryChain", "move"): "dyad",
    ("AuxiliaryChain", "start"): "empty",
    ("BernsteinTest", "bound"): "serfling",
    ("BernsteinTest", "range"): 0.5,
    ("DelayedAcceptance", "test"): amc.ExactTest(),
    ("ExactTest", "rule"): "barker",
    ("Firefly", "at"): np.array([0.5, 0.5]),
    ("Firefly", "bound"): "tuned",
    ("Firefly", "z_update"): ExplicitResampling(0.5),
    ("Gibbs", "conditional"): "terms",
    ("Gibbs", "test"): SequentialTTest(0.3, 2),
    ("ImplicitResampling", "q"): 0.5,
    ("Independence", "mean"): np.ones(2),
    ("MALAExchange", "cov"): [[2.0, 0.0], [0.0, 1.0]],
    ("MetropolisHastings", "shuffled_copy"): "disk",
    ("MetropolisHastings", "test"): amc.ExactTest("barker"),
    ("MinibatchBarker", "correction"): "nnls",
    ("Mixture", "proposals"): [amc.RandomWalk(0.1), amc.RandomWalk(0.2), amc.RandomWalk(0.3)],
    ("Mixture", "weights"): (1.0, 2.0, 3.0),
    ("NoisyLangevin", "cov"): [[2.0, 0.0], [0.0, 1.0]],
    ("PreconditionedCrankNicolson", "center"): np.ones(2),
    ("RandomWalk", "scale"): 0.2,
    ("SequentialTTest", "boundary_shape"): 0.2,
    ("Slice", "width"): 0.7,
    ("SliceSampler", "move"): Slice(0.7),
    ("SliceSampler", "test"): SequentialTTest(0.3, 4),
    ("StochasticGradientFisherScoring", "information"): MATRIX,
    ("StochasticGradientFisherScoring", "noise_matrix"): np.array([2.0, 1.0]),
    ("StochasticGradientHamiltonian", "gradient_noise"): None,
    ("SurrogateTransition", "kernel"): "walk",
    ("TunaTest", "chi"): 1.0,
}
# The component that is changed, where it is not the first example: some settings need others to have an effect.
BASE = {
    ("AuxiliaryChain", None): amc.targets.AuxiliaryChain(20, thin=2),
    ("Firefly", "at"): amc.Firefly(WALK, bound="tuned"),
    ("BernsteinTest", None): BernsteinTest(0.1, 20, order="rows"),
    ("Hamiltonian", "most_steps"): amc.proposals.Hamiltonian(0.05, most_steps=3),
    ("MALAExchange", None): amc.samplers.MALAExchange(0.1, True, 2, auxiliary=amc.targets.AuxiliaryChain(5)),
    ("NoisyLangevin", None): amc.samplers.NoisyLangevin(0.1, 2, auxiliary=amc.targets.AuxiliaryChain(5)),
    ("MinibatchBarker", None): MinibatchBarker(batch_size=20, order="rows"),
    ("SequentialTTest", None): SequentialTTest(0.1, 20, order="rows"),
}


def base(name, field):
    """Return the component in which a field is changed."""
    return BASE.get((name, field)) or BASE.get((name, None)) or EXAMPLES[name][0]


def altered(component, field):
    """Return the component with another value of a field."""
    name, value = type(component).__name__, getattr(component, field)
    if (name, field) in OTHER:
        other = OTHER[name, field]
    elif field in OTHER:
        other = OTHER[field]
    elif isinstance(value, bool):
        other = not value
    elif isinstance(value, int):
        other = value + 1
    elif isinstance(value, float):
        other = 1.3 * value if value else 0.3
    elif value is None:
        other = 0.4
    else:
        raise TypeError(f"{name}.{field}: no rule for {value!r}; add an entry to OTHER")
    return dataclasses.replace(component, **{field: other})


def recorded(model, sampler, **options):
    """Return draws and records of a short run, without what a clock says; or the message of its error."""
    settings = {"draws": 60, "tune": 40, "chains": 1, "random_seed": 1, "progressbar": False, "audit_every": None}
    try:
        trace = amc.sample(model, sampler, **{**settings, **options})
    except ApproxMCMCError as error:
        return str(error)
    return {
        f"{group}/{name}": values.to_numpy().tolist()
        for group in trace.children
        if group.removeprefix("warmup_") in ("posterior", "sample_stats")
        for name, values in trace[group].data_vars.items()
        if values.attrs.get("units") != "s"
    }


@functools.cache
def records_of(component):
    """Return what a run with this component records."""
    return recorded(*RUNS.get(type(component).__name__, moved_by)(component))


def ignored(name, field):
    """Return why a field of a component seems to have no effect; "" if it has."""
    first = base(name, field)
    assert isinstance(records_of(first), dict), records_of(first)
    try:
        second = records_of(altered(first, field))
    except ApproxMCMCError as error:
        second = str(error)
    if isinstance(second, str):
        return "" if field in second else f"it raises, and does not name {field}: {second}"
    return "the records are equal" if second == records_of(first) else ""


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.ApproxMCMCWarning")
@pytest.mark.parametrize("name", sorted(public_components() - LEFT_OUT))
def test_every_setting_of_a_component_has_an_effect(name):
    fields = [field.name for field in dataclasses.fields(type(EXAMPLES[name][0]))]
    assert {field: why for field in fields if (why := ignored(name, field))} == {}


# What holds a part and uses it in its own code: samplers other than Metropolis-Hastings, tests of a test, mixtures.
HOLDERS = {
    "AnnealedEpsilon": lambda test: judged_by(amc.acceptance.AnnealedEpsilon((0.2, 0.0), steps=(10,), test=test)),
    "DelayedAcceptance": lambda test: moved_by(
        WALK, amc.acceptance.DelayedAcceptance(test), on="ControlVariate, influential rows"
    ),
    "Gibbs": lambda test: (triples(), amc.Gibbs(test)),
    "SliceSampler": lambda test: (target("many rows"), SliceSampler(Slice(0.1), test)),
    "Exchange": lambda move: (target("ERGM"), amc.Exchange(move)),
    "Firefly": lambda move: (target("LogisticRegression"), amc.Firefly(move, bound="untuned")),
    "Mixture": lambda move: moved_by(amc.proposals.Mixture([move, amc.RandomWalk(0.1)])),
    "NoisyMetropolisHastings": lambda move: (target("EstimatedRatio"), amc.samplers.NoisyMetropolisHastings(move)),
    "PseudoMarginal": lambda move: (target("EstimatedLikelihood"), amc.samplers.PseudoMarginal(move)),
}
OF_TESTS = ("AnnealedEpsilon", "DelayedAcceptance", "Gibbs", "SliceSampler")
TESTS = {
    "SequentialTTest": SequentialTTest(0.1, 4, order="rows"),
    "BernsteinTest": BernsteinTest(0.1, 4, order="rows"),
    "MinibatchBarker": MinibatchBarker(batch_size=4, order="rows"),
}
MOVES = {
    "RandomWalk": WALK,
    "Independence": amc.proposals.Independence(np.zeros(2), cov=np.ones(2)),
    "PreconditionedCrankNicolson": EXAMPLES["PreconditionedCrankNicolson"][0],
    "Langevin": amc.Langevin(0.05),
    "Hamiltonian": amc.proposals.Hamiltonian(0.1, length=0.3),
    "StochasticGradientLangevin": StochasticGradientLangevin(0.05, 4),
}
PARTS = {
    ("AnnealedEpsilon", "SequentialTTest"): SequentialTTest(batch_size=4, order="rows"),  # the only test that it takes
    **{(holder, name): test for holder in OF_TESTS[1:] for name, test in TESTS.items()},
    **{(holder, name): move for holder in HOLDERS if holder not in OF_TESTS for name, move in MOVES.items()},
}


@functools.cache
def triples():
    """Return a field in which each of eight sites has 21 factors."""
    return amc.targets.BinaryMRF.random_triples(8, scale=0.3, random_seed=0)


@functools.cache
def held(holder, part):
    """Return what a short run with this part records, or the message of its error."""
    return recorded(*HOLDERS[holder](part), draws=15, tune=5)


def ignored_by(holder, part, field):
    """Return why a field of a part seems to have no effect in a holder; "" if it has, or if the pairing is refused."""
    try:
        first = held(holder, part)
    except IncompatibleError:
        return ""
    if isinstance(first, str):
        return ""
    try:
        second = held(holder, altered(part, field))
    except ApproxMCMCError as error:
        second = str(error)
    if isinstance(second, str):
        return "" if field in second or type(part).__name__ in second else f"it raises without a name: {second}"
    return "the records are equal" if second == first else ""


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.ApproxMCMCWarning")
@pytest.mark.parametrize(("holder", "name"), PARTS)
def test_every_setting_of_a_part_has_an_effect_wherever_it_is_used(holder, name):
    fields = [field.name for field in dataclasses.fields(PARTS[holder, name])]
    parts = {field: BASE.get((name, field)) or PARTS[holder, name] for field in fields}
    assert {field: why for field, part in parts.items() if (why := ignored_by(holder, part, field))} == {}


@dataclasses.dataclass(frozen=True, eq=False)
class PlantedWalk(amc.RandomWalk):
    """A random walk with a setting that nothing reads."""

    memory: int = 3


def test_a_planted_setting_that_nothing_reads_is_seen(monkeypatch):
    monkeypatch.setitem(EXAMPLES, "PlantedWalk", [PlantedWalk(0.3)])
    assert ignored("PlantedWalk", "memory") == "the records are equal"
    assert ignored("PlantedWalk", "target_acceptance") == ""


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: amc.Firefly(WALK, bound="untuned", at=[0.0, 1.0]), "at=.* has no effect"),
        (lambda: amc.acceptance.AnnealedEpsilon(test=SequentialTTest(0.2)), "epsilon=0.2 of test has no effect"),
        (lambda: amc.MetropolisHastings(WALK, amc.ExactTest(), shuffled_copy="disk"), "copy='disk' has no effect"),
        (lambda: amc.MetropolisHastings(WALK, SequentialTTest(order="rows"), shuffled_copy="disk"), "has no effect"),
        (
            lambda: amc.Exchange(WALK, auxiliary=amc.targets.AuxiliaryChain(20, thin=3)),
            "thin=3 .* has no effect with n_auxiliary=1",
        ),
        (
            lambda: amc.samplers.NoisyLangevin(0.1, 1, auxiliary=amc.targets.AuxiliaryChain(20, thin=3)),
            "thin=3 .* has no effect",
        ),
    ],
)
def test_a_setting_that_another_setting_makes_idle_is_refused(make, match):
    with pytest.raises((IncompatibleError, InvalidInputError), match=match):
        make()


# --- the arguments of `sample` ---

# Another value of each argument; those that its first value needs are given in both runs.
ARGUMENTS = {
    "target": (lambda folder: target("many rows"), {}),
    "sampler": (lambda folder: amc.MetropolisHastings(WALK, amc.ExactTest("barker")), {}),
    "draws": (lambda folder: 61, {}),
    "tune": (lambda folder: 41, {}),
    "chains": (lambda folder: 2, {}),
    "cores": (lambda folder: 1, {"chains": 3, "cores": 2}),
    "random_seed": (lambda folder: 2, {}),
    "initvals": (lambda folder: np.ones(2), {}),
    "thin": (lambda folder: 2, {}),
    "time_limit": (lambda folder: 1e-9, {"tune": 0}),
    "target_ess": (lambda folder: 1.0, {"draws": 600}),
    "max_bias": (lambda folder: 0.02, {}),
    "audit_every": (lambda folder: 1, {"sampler": amc.MetropolisHastings(WALK, SequentialTTest(0.2, 4))}),
    "discard_tuned_samples": (lambda folder: False, {}),
    "progressbar": (lambda folder: True, {}),
    "checkpoint": (lambda folder: folder / "run.nc", {}),
}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.ApproxMCMCWarning")
@pytest.mark.parametrize("name", inspect.signature(amc.sample).parameters)
def test_every_argument_of_sample_has_an_effect(name, tmp_path, capsys, monkeypatch):
    other, needed = ARGUMENTS[name]
    threads = []

    class Counted(concurrent.futures.ThreadPoolExecutor):
        def __init__(self, max_workers=None, **options):
            threads.append(max_workers)
            super().__init__(max_workers, **options)

    monkeypatch.setattr(concurrent.futures, "ThreadPoolExecutor", Counted)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)

    def effects(**given):
        threads.clear()
        given = {"target": target("LogisticRegression"), "sampler": BASE_SAMPLER, **needed, **given}
        records = recorded(given.pop("target"), given.pop("sampler"), **given)
        said = capsys.readouterr()
        return records, list(threads), said.err + said.out, [path.name for path in tmp_path.iterdir()]

    first, second = effects(), effects(**{name: other(tmp_path)})
    assert isinstance(first[0], dict), first[0]
    assert isinstance(second[0], dict) or name in second[0]
    assert second != first
