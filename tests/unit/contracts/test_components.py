"""Settings of proposals, tests and samplers: ranges, printing, equality, dicts."""

import contextlib
import dataclasses
import inspect
import itertools
import sys
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import ExactTest, SequentialTTest
from approxmcmc.contracts import AcceptanceTest, Component, Proposal, Sampler, Variables
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from tests.examples import EXAMPLES
from tests.models import logistic

COMPONENTS = [example for examples in EXAMPLES.values() for example in examples]


def public_components():
    """Return the names of all component classes that the package or one of its rooms offers."""
    homes = [amc, *(getattr(amc, room) for room in amc._ROOMS)]
    found = [getattr(home, name) for home in homes for name in getattr(home, "__all__", ())]
    classes = [each for each in found if isinstance(each, type) and issubclass(each, Component)]
    return {each.__name__ for each in classes if not inspect.isabstract(each)} - {"Component"}


def test_every_public_component_has_an_example():
    assert public_components() == set(EXAMPLES)
    for name, examples in EXAMPLES.items():
        assert {type(example).__name__ for example in examples} == {name}


@pytest.mark.parametrize("component", COMPONENTS, ids=repr)
def test_round_trip_through_a_dict(component):
    again = Component.from_dict(component.to_dict())
    assert again == component
    assert hash(again) == hash(component)
    assert repr(again) == repr(component)


def test_they_are_frozen():
    changeable = []
    for component in COMPONENTS:
        with contextlib.suppress(AttributeError):
            component.new = 1
            changeable.append(component)
    assert changeable == []


def test_only_equal_settings_are_equal():
    alike = [(one, other) for one, other in itertools.combinations(COMPONENTS, 2) if one == other or other == one]
    assert alike == []


def test_settings_are_compared_as_plain_values():
    """A comparison of fields would fail on those that are arrays."""
    classes = {type(each) for each in COMPONENTS}
    assert {each for each in classes if (each.__eq__, each.__hash__) != (Component.__eq__, Component.__hash__)} == set()


def test_members_play_their_roles():
    assert isinstance(RandomWalk(), Proposal)
    assert isinstance(ExactTest(), AcceptanceTest)
    assert isinstance(MetropolisHastings(RandomWalk(), ExactTest()), Sampler)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: SequentialTTest(epsilon=-0.1), r"epsilon.* found -0\.1"),
        (lambda: SequentialTTest(epsilon=0.6), r"epsilon.* found 0\.6"),
        (lambda: SequentialTTest(epsilon=float("nan")), "epsilon.* found nan"),
        (lambda: SequentialTTest(batch_size=1), "batch_size.* found 1"),
        (lambda: SequentialTTest(batch_size=2.5), r"batch_size.* found 2\.5"),
        (lambda: SequentialTTest(growth=0.5), "growth"),
        (lambda: ExactTest("hastings"), r"\['barker', 'metropolis'\], found 'hastings'"),
        (lambda: RandomWalk(0.0), "must be positive, found 0.0"),
        (lambda: RandomWalk([1.0, -2.0]), "must be positive, found -2.0"),
        (lambda: RandomWalk(float("inf")), "finite"),
        (lambda: RandomWalk([[1.0, 0.5], [0.4, 1.0]]), "symmetric"),
        (lambda: RandomWalk([[1.0, 2.0], [2.0, 1.0]]), "positive definite, its least eigenvalue is -1"),
        (lambda: RandomWalk(np.ones((2, 2, 2))), r"found shape \(2, 2, 2\)"),
        (lambda: amc.SurrogateTransition("nuts"), r"one of hmc\+walls, hmc, mala.* found 'nuts'"),
        (lambda: RandomWalk(1.0, target_acceptance=1.0), "strictly between 0 and 1, found 1.0"),
    ],
)
def test_settings_out_of_range_are_refused_when_made(make, match):
    with pytest.raises(InvalidInputError, match=match):
        make()


@pytest.mark.parametrize(
    ("proposal", "test", "match"),
    [
        (ExactTest(), ExactTest(), "proposal must be a proposal such as RandomWalk"),
        (RandomWalk(), 3, "test must be an acceptance test such as SequentialTTest"),
        (RandomWalk(), None, "only SurrogateTransition has a default"),
        (RandomWalk, ExactTest(), "found <class"),
    ],
)
def test_impossible_pairs_are_refused(proposal, test, match):
    with pytest.raises(IncompatibleError, match=match):
        MetropolisHastings(proposal, test)


@pytest.mark.parametrize("scale", [[1.0, 2.0], np.eye(2)])
def test_a_scale_of_the_wrong_length_is_refused_before_sampling(scale):
    with pytest.raises(IncompatibleError, match="the target has 3 parameters"):
        MetropolisHastings(RandomWalk(scale), ExactTest()).build(logistic(), audit_every=None)


def test_from_type_one_error_inverts_the_recursion():
    test = SequentialTTest.from_type_one_error(0.5, n_obs=10_000, batch_size=500)
    assert 0.0 < test.epsilon < 0.5
    smaller = SequentialTTest.from_type_one_error(0.1, n_obs=10_000, batch_size=500)
    assert smaller.epsilon < test.epsilon


def test_variables_unpack_and_pack():
    variables = Variables({"a": (), "w": (2, 2)})
    theta = np.arange(10.0).reshape(2, 5)
    pieces = variables.unpack(theta)
    assert pieces["a"].tolist() == [0.0, 5.0]
    assert pieces["w"].shape == (2, 2, 2)
    np.testing.assert_array_equal(variables.pack({name: values[1] for name, values in pieces.items()}), theta[1])


class TestOneNameOneComponent:
    """Stored settings know a component by its bare name."""

    @pytest.fixture(autouse=True)
    def registry(self, monkeypatch):
        for name in ("_registry", "_homes"):
            monkeypatch.setattr(Component, name, dict(getattr(Component, name)))

    def test_a_name_that_is_taken_is_refused(self):
        with pytest.raises(TypeError, match=r"another component has the same name, approxmcmc\.proposals\.random"):
            type("RandomWalk", (Component,), {"__module__": "mine"})
        assert Component.from_dict(RandomWalk(0.5).to_dict()) == RandomWalk(0.5)

    def test_a_class_that_is_defined_again_takes_the_place_of_the_first(self):
        """As in a notebook whose cell runs twice; settings are equal there, and steps need not be."""
        first, second = (
            dataclasses.dataclass(frozen=True, eq=False)(type("NotebookWalk", (Component,), {"__module__": "__main__"}))
            for _ in range(2)
        )
        assert type(Component.from_dict({"kind": "NotebookWalk"})) is second
        assert first() == first() != second()

    def test_a_study_may_be_loaded_under_two_names(self, tmp_path, monkeypatch):
        found = []
        for name, file in (("studies.mine", "mine.py"), ("study_17", "mine.py"), ("other", "other.py")):
            module = types.ModuleType(name)
            module.__file__ = str(tmp_path / file)
            monkeypatch.setitem(sys.modules, name, module)
            found.append({"__module__": name})
        type("OfAStudy", (Component,), found[0])
        second = type("OfAStudy", (Component,), found[1])
        assert Component._registry["OfAStudy"] is second
        with pytest.raises(TypeError, match="rename one"):
            type("OfAStudy", (Component,), found[2])
