"""The table of plans: which one each model of the zoo takes, and why it takes none of the others."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from approxmcmc.interop import plans
from approxmcmc.interop.plans import (
    INTEGRATE_GROUPS,
    LINEAR_PREDICTORS,
    PLANS,
    WHOLE_CHAINS,
    cheapest,
    plan_table,
    price,
)
from approxmcmc.interop.read import ModelDescription, Request
from tests import plan_table as pinned, pymc_zoo as zoo

# The others of the table are thorough: reading a model takes a second.
IN_SHORT = ["normal hierarchy", "potential on data", "discrete parameter"]
STORED = pinned.read()


@pytest.mark.parametrize(
    "name",
    [name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.thorough) for name in pinned.MODELS],
)
def test_plan_and_reasons_are_the_stored_ones(name):
    assert pinned.pinned(name) == STORED[name]


def test_every_plan_is_taken_by_a_model():
    taken = {plan for answers in STORED.values() for plan, answer in answers.items() if answer == pinned.TAKEN}
    assert taken == {plan.name for plan in PLANS}


def test_the_cheapest_plan_that_fits_is_taken(monkeypatch):
    """Planted: a plan with other prices, so that the last plan is the cheapest."""
    model = zoo.build(zoo.ordered)
    taken = plan_table(model).taken
    assert taken is not WHOLE_CHAINS
    monkeypatch.setattr(plans.WholeChains, "seconds", lambda self, description: -1.0)
    assert plan_table(model).taken is WHOLE_CHAINS


@pytest.mark.thorough
def test_a_price_that_cannot_be_counted_is_recorded_and_leaves_the_plan_last(monkeypatch):
    def fail(self, description):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(INTEGRATE_GROUPS.__class__, "seconds", fail)
    description = ModelDescription(zoo.build(zoo.normal_hierarchy), Request())
    with pytest.raises(ZeroDivisionError):
        price(INTEGRATE_GROUPS, description)
    monkeypatch.delenv("APPROXMCMC_RAISE_FAULTS")
    with pytest.warns(match="ZeroDivisionError.*planted"):
        assert price(INTEGRATE_GROUPS, description) == np.inf
    assert "planted" in description.fault_attrs["reading_faults"]
    assert cheapest(description, PLANS) is not INTEGRATE_GROUPS


@pytest.mark.thorough
def test_a_model_is_read_once_by_each_plan(monkeypatch):
    reads = []
    read = plans.ModelOfPyMC.__init__

    def counted(self, *arguments, **settings):
        reads.append(self)
        read(self, *arguments, **settings)

    monkeypatch.setattr(plans.ModelOfPyMC, "__init__", counted)
    plan_table(zoo.build(zoo.poisson))
    assert len(reads) == 1


# --- the list of operations ---


def effects_by(move):
    """Return a model whose effects, of known scale, are moved before rows pick them."""
    with pm.Model() as model:
        effect = pm.Normal("z", shape=zoo.GROUPS)
        pm.Normal("y", pm.Normal("mu") + move(effect)[zoo.GROUP], pm.HalfNormal("sigma"), observed=zoo.Z)
    return model


def by_pieces(effect):
    first, second = pt.split(effect, [3, zoo.GROUPS - 3], n_splits=2)
    return pt.concatenate([first, second])


MOVES = {
    "axes": lambda effect: effect[None, :, None][0, :, 0],
    "reshape": lambda effect: effect.reshape((1, zoo.GROUPS)).ravel(),
    "index": lambda effect: effect[np.arange(zoo.GROUPS)[::-1]][::-1],
    "pieces": by_pieces,
    "stack": lambda effect: pt.stack([effect[k] for k in range(zoo.GROUPS)]),
    "assignment": lambda effect: pt.set_subtensor(pt.zeros(zoo.GROUPS)[:], effect),
    "shape": lambda effect: effect * (effect.shape[0] / effect.shape[0]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("move", MOVES)
def test_each_reader_follows_operations_that_only_move_numbers(move):
    """The readers of groups and of linear predictors."""
    answers = {answer.plan: answer for answer in plan_table(effects_by(MOVES[move])).answers}
    assert answers[INTEGRATE_GROUPS].is_taken
    assert answers[LINEAR_PREDICTORS].why_not is None
