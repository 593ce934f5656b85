"""Declarations, cells, keys and seeds."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.compiler.code_version import code_tokens
from approxmcmc.errors import StudyError
from approxmcmc.study import Budget, Knob, Study, knob, vary
from approxmcmc.study.plan import digest, make_plan, select
from tests.studies.toys import ToySampler, ToyTarget, toy_study

pytestmark = pytest.mark.core


def cells_of(study: Study, preset: str = "paper") -> dict[tuple[str, str, int], tuple[str, int, int]]:
    return {(c.target, c.label, c.replicate): (c.key, c.seed, c.start_seed) for c in make_plan(study, preset).cells}


# --- declaring ---


def test_knobs_are_crossed_in_order():
    family = vary(dict, a=knob(1, 2), fixed=7, epsilon=knob(0.0, 0.5))
    settings = family.settings("name")
    assert [setting.label for setting in settings] == [
        "name[a=1, epsilon=0.0]",
        "name[a=1, epsilon=0.5]",
        "name[a=2, epsilon=0.0]",
        "name[a=2, epsilon=0.5]",
    ]
    assert settings[1].sampler == {"a": 1, "fixed": 7, "epsilon": 0.5}
    assert settings[1].knobs == {"a": 1, "epsilon": 0.5}


def test_a_family_without_knobs_is_one_setting():
    assert [setting.label for setting in vary(dict, a=1).settings("name")] == ["name"]


def test_epsilon_without_zero_is_refused():
    with pytest.raises(StudyError, match="needs 0 among its values"):
        vary(dict, epsilon=knob(0.05, 0.1))


@pytest.mark.parametrize("values", [(), (1, 1)])
def test_a_knob_needs_different_values(values):
    with pytest.raises(StudyError, match="different values"):
        knob(*values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "To y"}, "found 'To y'"),
        ({"targets": {}}, "at least one target"),
        ({"targets": {"a/b": ToyTarget}}, "found 'a/b'"),
        ({"replicates": 0}, "replicates >= 1"),
        ({"budgets": {"plane": Budget(draws=1)}}, r"`budgets` names \['plane'\], which are not .*\['plain'\]"),
        ({"average_over": ("mean",)}, "not among the estimands"),
        ({"samplers": {"a": ToySampler(), "a[]": ToySampler()}}, "found 'a\\[\\]'"),
        ({"presets": {"smoke": {"replicate": 1}}}, "did you mean 'replicates'"),
        ({"samplers": {"walk": amc.RandomWalk(0.1)}}, r"'walk' needs a sampler .*found RandomWalk\("),
        ({"name": "a" * 101}, "name of a study .* at most 100 characters; found 101, 'aaaa"),
        ({"targets": {"a" * 101: ToyTarget}}, "name of a target .* at most 100 characters; found 101"),
        ({"samplers": {"walk": ToySampler}}, "found the class ToySampler, not an object"),
        ({"samplers": {"nuts": vary(dict, a=knob(1, 2))}}, r"'nuts\[a=1\]' needs a sampler .*found {'a': 1}"),
    ],
)
def test_a_wrong_declaration_says_what_is_wrong(changes, message):
    with pytest.raises(StudyError, match=message):
        toy_study(**changes)


@pytest.mark.thorough
def test_a_target_with_a_budget_of_its_own_has_the_cells_of_a_study_with_that_budget():
    targets = {"plain": ToyTarget, "slow": lambda: ToyTarget(3)}
    mixed = cells_of(toy_study(targets=targets, budgets={"slow": Budget(draws=50)}))
    short, long = (cells_of(toy_study(targets=targets, budget=Budget(draws=n))) for n in (20, 50))
    assert mixed == {name: (long if name[0] == "slow" else short)[name] for name in mixed}


@pytest.mark.parametrize("arguments", [{}, {"seconds": 0.0}, {"draws": 0}])
def test_a_budget_is_checked(arguments):
    with pytest.raises(StudyError, match="Budget needs"):
        Budget(**arguments)


def test_a_preset_replaces_fields_and_paper_is_the_study_itself():
    study = toy_study()
    assert study.preset_names == ["smoke", "paper"]
    assert study.with_preset("smoke").replicates == 1
    assert study.with_preset("paper").replicates == 2
    assert study.default_preset == "paper"


def test_a_preset_may_be_like_another():
    study = toy_study(presets={"smoke": {"replicates": 1, "tune": 7}, "more": {"like": "smoke", "replicates": 3}})
    more = study.with_preset("more")
    assert (more.replicates, more.tune) == (3, 7)
    with pytest.raises(StudyError, match=r"Preset 'more' builds on the unknown preset 'smoky'; did you mean 'smoke'\?"):
        toy_study(presets={"smoke": {"replicates": 1}, "more": {"like": "smoky"}})


def test_an_unknown_preset_gets_the_nearest_match():
    with pytest.raises(StudyError, match=r"no preset 'smok'; did you mean 'smoke'\?"):
        toy_study().with_preset("smok")


def test_a_target_is_made_when_first_needed_and_once():
    made = []
    study = toy_study(targets={"counted": lambda: made.append(1) or ToyTarget()})
    assert made == []
    study.plan()
    study.with_preset("smoke").plan()
    assert made == [1]


def test_a_target_that_is_none_is_refused():
    with pytest.raises(StudyError, match=r"without .*content_hash"):
        toy_study(targets={"broken": dict}).plan()


# --- cells, keys and seeds ---


def test_the_plan_has_one_row_per_cell_in_blocks():
    frame = toy_study().plan()
    assert len(frame) == 6
    assert frame["replicate"].tolist() == [0, 0, 0, 1, 1, 1]
    assert frame["order_in_block"].tolist() == [0, 1, 2, 0, 1, 2]
    assert frame["key"].is_unique
    assert frame["seed"].is_unique


def test_blocks_are_shuffled_by_the_seed_of_the_study():
    def orders(seed: int) -> set[tuple[str, ...]]:
        plan = make_plan(toy_study(seed=seed, replicates=20), "paper")
        return {tuple(c.label for c in plan.cells if c.replicate == r) for r in range(20)}

    # 20 fair shuffles show 3 or fewer of the 6 orders with probability at most 20 / 2^20 = 2e-5.
    assert len(orders(1)) > 3
    assert make_plan(toy_study(), "paper").cells == make_plan(toy_study(), "paper").cells


def test_keys_and_seeds_do_not_move_when_the_study_grows():
    small = cells_of(toy_study())
    grown = toy_study(
        replicates=4,
        targets={"first": lambda: ToyTarget(3), "plain": ToyTarget},
        samplers={"other": ToySampler(fault="x"), "walk": vary(ToySampler, epsilon=knob(0.5, 0.2, 0.05, 0.0))},
    )
    assert small.items() <= cells_of(grown).items()


def test_keys_do_not_depend_on_the_preset():
    study = toy_study()
    assert cells_of(study, "smoke").items() <= cells_of(study).items()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"tune": 6},
        {"thin": 2},
        {"budget": Budget(draws=21)},
        {"targets": {"plain": lambda: ToyTarget(3)}},
        {"audit_every": 1},
        {"name": "other"},
        {"start": lambda target, rng: np.zeros(2)},
    ],
)
def test_whatever_changes_the_law_changes_every_key_and_seed(change):
    before, after = cells_of(toy_study()), cells_of(toy_study(**change))
    assert {key for key, _, _ in before.values()}.isdisjoint(key for key, _, _ in after.values())
    assert {seed for _, seed, _ in before.values()}.isdisjoint(seed for _, seed, _ in after.values())


def test_what_is_only_analysed_changes_no_key():
    changed = toy_study(
        estimands={"mean": lambda posterior: posterior["beta"]}, reference="elsewhere", analyses=(print,)
    )
    assert cells_of(changed) == cells_of(toy_study())


def test_a_change_of_code_changes_keys_and_no_seed(monkeypatch):
    before = cells_of(toy_study())
    monkeypatch.setattr("approxmcmc.study.plan.code_version", lambda: "other")
    after = cells_of(toy_study())
    assert all(before[place][0] != after[place][0] and before[place][1:] == after[place][1:] for place in before)


@pytest.mark.thorough
def test_keys_are_the_same_in_another_process():
    code = (
        "import json; from tests.studies.toys import toy_study\n"
        "print(json.dumps(toy_study().plan()[['key', 'seed']].values.tolist()))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == toy_study().plan()[["key", "seed"]].values.tolist()


def test_settings_of_one_block_start_from_one_point():
    study = toy_study()
    target = study.target("plain")
    points = {
        r: [c.starting_point(study, target) for c in make_plan(study, "paper").cells if c.replicate == r]
        for r in (0, 1)
    }
    for block in points.values():
        assert all(np.array_equal(block[0], point) for point in block)
        assert np.all(np.abs(block[0]) < 1)
    assert not np.array_equal(points[0][0], points[1][0])


def test_a_proposal_that_brings_a_start_starts_there():
    """As in `sample`; settings without one still share theirs, and equal proposals share their draw."""
    far = amc.proposals.Independence([50.0], cov=[0.1])
    samplers = {
        "walk": amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()),
        "far": amc.MetropolisHastings(far, amc.ExactTest()),
        "far-approximate": amc.MetropolisHastings(far, amc.SequentialTTest(0.1)),
    }
    study = toy_study(samplers=samplers)
    target = study.target("plain")
    cells = make_plan(study, "smoke").cells
    points = {cell.sampler_name: cell.starting_point(study, target) for cell in cells}
    assert abs(points["walk"][0]) < 1
    assert 49 < points["far"][0] < 51
    assert points["far"] == points["far-approximate"]


def test_the_order_of_keys_in_a_dict_does_not_matter_to_a_digest():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


# --- filters ---


@pytest.mark.parametrize(
    ("only", "count"),
    [
        (None, 6),
        ("replicate=1", 3),
        ("epsilon=.05", 2),
        ("sampler=walk,epsilon=0,replicate=0", 1),
        ("label=walk[epsilon=0.2], target=plain", 2),
    ],
)
def test_filters_keep_what_they_name(only, count):
    assert len(select(make_plan(toy_study(), "paper").cells, only)) == count


@pytest.mark.parametrize(
    ("only", "message"),
    [("epsilo=1", "did you mean 'epsilon'"), ("epsilon", "NAME=VALUE"), ("epsilon=0.3", "No cell is left")],
)
def test_a_filter_that_cannot_be_meant_is_refused(only, message):
    with pytest.raises(StudyError, match=message):
        select(make_plan(toy_study(), "paper").cells, only)


def test_a_label_with_commas_is_one_condition():
    study = toy_study(samplers={"walk": vary(ToySampler, epsilon=knob(0.0, 0.1), fault=knob("a", "b"))})
    chosen = select(make_plan(study, "paper").cells, "label=walk[epsilon=0.0, fault='a'],replicate=0")
    assert [cell.label for cell in chosen] == ["walk[epsilon=0.0, fault='a']"]


# --- the version of the code ---

CODE = 'def f(x):\n    """Say."""\n    return x + 1  # one\n'


@pytest.mark.parametrize(
    ("edited", "same"),
    [
        (
            'def f(x):\n    """Say more."""\n\n    return (\n        x + 1\n    )\n',
            False,
        ),  # parentheses are code, here harmless
        ('def f(x):\n  """Say\n  more."""\n\n  return x + 1\n', True),
        ("def f(x):\n    return x + 1\n", True),
        ("def f(x):\n    return x + 2\n", False),
        ('def f(x):\n    "a" + "b"\n    return x + 1\n', False),
    ],
)
def test_comments_docstrings_and_layout_do_not_count_as_code(edited, same):
    assert (list(code_tokens(edited)) == list(code_tokens(CODE))) is same


def test_knob_is_a_plain_value():
    assert knob(1, 2) == Knob((1, 2))
    assert dataclasses.is_dataclass(Knob)
