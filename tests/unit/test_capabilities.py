"""No cell of the capability table is lost; one that is gained is stored, and every public regression has its rows."""

import pytest

from approxmcmc import targets
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.statistics.target import NormalStatistics
from tests import capabilities

STORED = capabilities.read()
BUILT_BY_HAND = {targets.PredictorTarget, targets.PseudoLikelihood}  # by a function, and of the sites of a graph
COMMAND = "NUMBA_DISABLE_JIT=1 python -m tests.capabilities"


# One of each kind of likelihood; the build of the documentation asks for all families and designs.
TABLES = ("Bernoulli, logit", "negative binomial", "normal", "ordered logit", "softmax", "yours, with bounds")
ASKED = [*((family, "matrix") for family in capabilities.FAMILIES), *((family, "table with text") for family in TABLES)]


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "design"), ASKED)
def test_what_worked_still_works(family, design):
    answers = capabilities.answers_of(family, design)
    assert capabilities.lost(answers, STORED[family][design]) == {}
    gained = set(capabilities.working(answers)) - set(STORED[family][design])
    assert not gained, f"{family}, {design}: {gained} works now; store it: {COMMAND}"


def test_the_table_has_a_row_for_each_public_regression():
    public = {getattr(targets, name) for name in targets.__all__}
    regressions = {one for one in public if isinstance(one, type) and issubclass(one, (Regression, NormalStatistics))}
    shown = {getattr(family.make, "func", family.make) for family in capabilities.FAMILIES.values()}
    assert {one for one in shown if isinstance(one, type)} == regressions - BUILT_BY_HAND
    assert list(STORED) == list(capabilities.FAMILIES)


def test_a_bound_that_is_lost_is_seen(monkeypatch):
    """A logit without the bound of its slope loses the tests that need it, with their reasons."""
    family, design = "Bernoulli, logit", "matrix"
    monkeypatch.setattr(targets.LogisticRegression, "longest_gradients", lambda target: None)
    lost = capabilities.lost(capabilities.answers_of(family, design), STORED[family][design])
    assert {"BernsteinTest", "PoissonTest", "TunaTest", "FactorizedTest"} <= set(lost)
    assert not {"ExactTest", "Firefly", "ZigZag"} & set(lost)
    assert "does not bound its terms one by one" in lost["PoissonTest"]
