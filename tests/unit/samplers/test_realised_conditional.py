"""The conditional that a test realises at frozen contexts: refusals, certain decisions, and the numbers beside it."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
FIELD = amc.targets.BinaryMRF.random_triples(5, scale=0.5, random_seed=0)
CONTEXTS = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0], [1, 0, 1, 1, 1]])
SITES = [0, 4, 2]
TEST = amc.SequentialTTest(0.1, 3)


def realised(contexts=CONTEXTS, sites=SITES, test=TEST, **settings):
    return amc.samplers.realised_conditional(
        FIELD, test, contexts, sites, **{"random_seed": 1, "replications": 20} | settings
    )


def changed(entry):
    """Return the contexts with one entry replaced."""
    contexts = CONTEXTS.astype(float)
    contexts[1, 3] = entry
    return contexts


@pytest.mark.parametrize("entry", [-1, 2, 0.5, -0.5])
def test_a_context_that_is_no_state_is_refused(entry):
    with pytest.raises(InvalidInputError, match=r"0, 1, \.\.\. below n_states .* numbers from 0 to 4$"):
        realised(changed(entry))


@pytest.mark.parametrize("site", [-1, 5])
def test_a_site_that_is_none_is_refused(site):
    with pytest.raises(InvalidInputError, match="numbers from 0 to 4"):
        realised(sites=[0, site, 2])


@pytest.mark.parametrize(("contexts", "sites"), [(CONTEXTS[0], [0]), (CONTEXTS, [0, 1]), (CONTEXTS[:, :4], SITES)])
def test_shapes_that_do_not_fit_are_refused(contexts, sites):
    with pytest.raises(InvalidInputError, match=r"shape \(n, 5\)"):
        realised(contexts, sites)


@pytest.mark.parametrize("probability", [-0.5, 0.0, 1.0, 1.5])
def test_a_probability_that_is_certain_or_none_is_refused(probability):
    with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
        realised(probability=probability)


def test_an_exact_test_is_refused():
    with pytest.raises(IncompatibleError, match="must be approximate"):
        realised(test=amc.ExactTest())


@pytest.mark.parametrize(("probability", "share"), [(1e-13, 0.0), (1.0 - 1e-13, 1.0)])
def test_what_is_all_but_certain_is_decided_so_every_time(probability, share):
    found = realised(probability=probability)
    assert found["realised"].values.tolist() == [share] * 3 and found["realised_mcse"].values.tolist() == [0.0] * 3
    np.testing.assert_allclose(found["exact"], probability, rtol=1e-12)


def test_the_log_odds_are_those_of_all_states():
    """By enumeration of the field: log P(x_i = 1 | rest) - log P(x_i = 0 | rest)."""
    found = realised()
    for k, (context, site) in enumerate(zip(CONTEXTS, SITES, strict=True)):
        at = [np.where(np.arange(5) == site, value, context).astype(float) for value in (0, 1)]
        terms = [FIELD.compile_conditionals(fields=False).terms_at(state, site) for state in at]
        log_odds = float(np.diff(FIELD.log_density(np.array(at)))[0])
        assert found["log_odds"][k] == pytest.approx(log_odds, rel=1e-10)
        assert found["exact"][k] == pytest.approx(1.0 / (1.0 + math.exp(-log_odds)), rel=1e-10)
        spread = (terms[1] - terms[0]).std(ddof=1)
        assert found["tau"][k] == pytest.approx(math.sqrt(len(terms[0])) * spread, rel=1e-12)


def test_a_temperature_divides_the_terms():
    cold, hot = (realised(test=amc.acceptance.MinibatchBarker(batch_size=3, temperature=t)) for t in (1.0, 4.0))
    np.testing.assert_allclose(hot["log_odds"], cold["log_odds"] / 4.0, rtol=1e-12)
    np.testing.assert_allclose(hot["tau"], cold["tau"] / 4.0, rtol=1e-12)


def test_the_error_is_that_of_a_share_and_data_are_counted_per_decision():
    found = realised(replications=50)
    p = found["realised"].values
    np.testing.assert_allclose(found["realised_mcse"], np.sqrt(p * (1.0 - p) / 50), rtol=1e-12)
    assert (p > 0.0).any() and ((found["data_fraction"] >= 3.0 / 6.0) & (found["data_fraction"] <= 1.0)).all()
