"""What a user writes for a study counts by its code: the cells of changed code are other cells, and no others are."""

import re

import pytest

from approxmcmc.contracts import Component
from approxmcmc.errors import ApproxMCMCWarning, StudyError
from approxmcmc.study.gold import gold_request
from approxmcmc.study.load import load_study
from approxmcmc.study.plan import make_plan
from approxmcmc.study.store import Store

SOURCE = '''
"""A study."""
import dataclasses
import numpy as np
import approxmcmc as amc
from approxmcmc.whole_chains import ChainSampler, chain_trace
from approxmcmc.study import Budget, Gold, Study
from tests.studies.toys import ToyTarget

CONSTANTS = {"scale": 1.0}


def helper(rng, shape):
    return CONSTANTS["scale"] * rng.normal(size=shape)


class Base(ChainSampler):
    shift = 0.0

    def thetas(self, seed, draws):
        return helper(np.random.default_rng(seed), (draws, 2)) + self.shift


@dataclasses.dataclass(frozen=True, eq=False)
class Mine(Base):
    function: object = abs

    def draw_chain(self, target, *, seconds, draws, seed, initial):
        return chain_trace(self, target, self.thetas(seed, draws), seconds=1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class OwnWalk(amc.RandomWalk):
    def compile(self, target):
        return super().compile(target)


def start(target, rng):
    return rng.normal(size=2)


def mean(posterior):
    return posterior["beta"]


def reference(target, **settings):
    raise NotImplementedError


def unused():
    return 1


study = Study(
    name="s",
    targets={"t": ToyTarget},
    samplers={
        "mine": Mine(),
        "walk": amc.MetropolisHastings(OwnWalk(0.1), amc.ExactTest()),
        "theirs": amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()),
    },
    budget=Budget(draws=10),
    estimands={"mean": mean},
    gold=Gold(by=reference),
    replicates=1,
    start=start,
)
'''


@pytest.fixture
def plan_of(tmp_path, monkeypatch):
    """Return a function that plans the study with replacements in its text, in a file of its own or in the same one."""

    known = dict(Component._homes)

    def plan(*replacements, name="study"):
        monkeypatch.setattr(Component, "_homes", dict(known))  # as in a process that reads this file alone
        text = SOURCE
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        return make_plan(load_study(file), "paper")

    return plan


def identities(plan):
    return {cell.label: cell.identity for cell in plan.cells}


def request(plan):
    return gold_request(plan.study, "paper", "t")["request"]


@pytest.mark.parametrize(
    "edit",
    [
        [('"""A study."""', '"""A study of samplers."""\n\n# a comment')],
        [("def helper", "# a comment\ndef helper")],
        [("class Base(ChainSampler):", 'class Base(ChainSampler):\n    """A docstring."""\n')],
        [("def unused():\n    return 1", "def unused():\n    return 2")],
        [("def unused():\n    return 1", "")],
    ],
)
def test_an_edit_that_no_code_reads_changes_no_cell(plan_of, edit):
    before = plan_of()
    after = plan_of(*edit)
    assert identities(before) == identities(after)
    assert request(before) == request(after)


def test_neither_the_name_nor_the_folder_of_the_file_counts(plan_of):
    assert identities(plan_of()) == identities(plan_of(name="another"))


EDITS = {
    "a helper": (('CONSTANTS["scale"] * rng', '2.0 * CONSTANTS["scale"] * rng'), {"mine"}, "helper"),
    "a dict": (('{"scale": 1.0}', '{"scale": 100.0}'), {"mine"}, "CONSTANTS"),
    "an attribute of a base": (("shift = 0.0", "shift = 1.0"), {"mine"}, "shift"),
    "a method of a base": (("+ self.shift", "- self.shift"), {"mine"}, "Base.thetas"),
    "a setting": (("function: object = abs", "function: object = helper"), {"mine"}, "function"),
    "a proposal": (("return super().compile(target)", "return None"), {"walk"}, "OwnWalk.compile"),
    "the start": (("return rng.normal(size=2)", "return rng.normal(size=2) + 1"), {"mine", "walk", "theirs"}, "start"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_the_cells_that_read_it_and_the_message_names_it(plan_of, tmp_path, edit):
    replacement, labels, name = EDITS[edit]
    before = plan_of()
    after = plan_of(replacement)
    changed = {label for label, identity in identities(before).items() if identity != identities(after)[label]}
    assert changed == labels
    store = Store(tmp_path / "results")
    store.accept_plan(before)
    if edit == "the start":  # belongs to all cells
        with pytest.raises(StudyError, match=rf"(?s){len(labels)} of its 3 cells.*code of .*\b{name}\b"):
            store.accept_plan(after)
        return
    [label] = labels
    pieces = store.edited_code(after)
    assert list(pieces) == [label] and re.search(rf"\b{name}\b", pieces[label])
    assert store.accept_plan(after) == "edited" and store.accept_plan(after) == "same"
    assert store.accept_plan(before) == "edited"


def test_an_edit_with_another_change_is_refused(plan_of, tmp_path):
    store = Store(tmp_path / "results")
    store.accept_plan(plan_of())
    for change in (("draws=10", "draws=20"), ('"mine": Mine(),', '"other": Mine(),')):
        with pytest.raises(StudyError, match="cells are not in the present plan"):
            store.accept_plan(plan_of(EDITS["a helper"][0], change))


@pytest.mark.parametrize(
    "edit", [('return posterior["beta"]', 'return 2 * posterior["beta"]'), ("NotImplementedError", "ValueError")]
)
def test_an_estimand_and_a_reference_are_known_by_their_code(plan_of, edit):
    before = plan_of()
    after = plan_of(edit)
    assert identities(before) == identities(after)
    assert request(before) != request(after)


def test_an_object_that_cannot_be_read_is_a_warning_that_names_it(plan_of):
    with pytest.warns(ApproxMCMCWarning, match=r"helper: CONSTANTS refers to .*generator.*name another store"):
        plan_of(('{"scale": 1.0}', "np.random.default_rng(0)"))
