"""The program of Metropolis-Hastings at its edges: what an arrangement costs, what a chain compiles, what failures say."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.order import blocks_order
from approxmcmc.samplers.metropolis_hastings_program import END
from tests.models import logistic

pytestmark = pytest.mark.recompiles
WALK = amc.RandomWalk(0.1)
ROWS, BLOCKS = (amc.SequentialTTest(0.1, 20, order=order) for order in ("rows", "blocks"))


def program(test, target=None, move=WALK):
    return amc.MetropolisHastings(move, test).build(target or logistic(200), audit_every=None)


def test_rows_as_they_lie_cost_no_evaluation():
    built = program(ROWS)
    data, order, evaluations = built.arrange(np.zeros(3), np.random.default_rng(0))
    assert data is built.target.data and evaluations == 0 and len(order.places) == 200


def test_a_shuffled_copy_is_checked_once_and_serves_all_chains(monkeypatch):
    monkeypatch.setattr("approxmcmc.samplers.metropolis_hastings_program.is_reshuffled", lambda *given: False)
    built, rng = program(BLOCKS), np.random.default_rng(0)
    first, second = (built.arrange(np.zeros(3), rng) for _ in range(2))
    assert first[0] is second[0] and first[2] > 0 == second[2]
    assert isinstance(first[1], type(blocks_order(200, 20, (), None)))


def test_both_states_at_once_are_for_blocks_alone():
    assert program(ROWS).at_both is None and program(BLOCKS).at_both is not None


def test_the_end_of_a_run_is_after_every_epoch():
    annealed = amc.AnnealedEpsilon((0.1, 0.0), steps=(10**9,), test=amc.SequentialTTest(0.1, 20))
    state = annealed.build_test(logistic(200)).state_at(END)
    assert state.decisions[0] > 10**9


def loglik(theta, data, i):
    """Return NaN for the data that are."""
    return data[0][i] * theta[0]


def failure(x, prior, proposed=0.5, explain=None):
    """Return what is said of a step from 0 to `proposed`."""
    target = amc.Target(loglik, prior, data=np.zeros(4), n_obs=4, dim=1)
    built = program(amc.ExactTest(), target)
    built.target = built.target._replace(data=(np.asarray(x, dtype=float),))
    if explain is not None:
        built.proposal = built.proposal._replace(explain=explain)
    return built.explain_failure(SimpleNamespace(theta=np.zeros(1), proposed=np.array([proposed]), proposal=None))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ([0.0, math.nan, 0.0, 0.0], "log-likelihood of datum 1 is NaN or"),
        ([0.0, math.nan, math.nan, 0.0], "log-likelihood of datum 1 and 1 more is NaN or"),
        ([0.0, 0.0, math.nan, math.inf], "log-likelihood of datum 2 and 1 more is NaN or"),
        ([0.0, 0.0, 0.0, 0.0], "log ratio of proposal densities is NaN from"),
    ],
)
def test_the_data_that_are_no_numbers_are_counted(x, said):
    assert failure(x, lambda theta: 0.0).startswith(said)


@pytest.mark.parametrize(("value", "said"), [(math.nan, "NaN"), (math.inf, "+inf")])
def test_a_prior_that_is_no_number_is_told(value, said):
    def beyond(theta):
        return value if theta[0] > 0.25 else 0.0

    assert failure(np.zeros(4), beyond).startswith(f"log prior is {said} at theta")


@pytest.mark.parametrize(("reason", "said"), [("too far", "too far, at theta"), ("", "the gradient of the proposal is")])
def test_a_proposal_that_is_no_number_may_say_why(reason, said):
    assert failure(np.zeros(4), lambda theta: 0.0, math.nan, lambda state: reason).startswith(said)
