"""Bayesian networks: the alarm network's exact numbers, evidence, several states, and what is refused."""

import itertools

import numpy as np
import pytest

from approxmcmc.errors import InvalidInputError
from approxmcmc.targets import BayesianNetwork, alarm_network

# (event, evidence, probability): methods.md, section B.5, by enumeration of the 32 states.
ANSWERS = [
    ({"A": 1}, {}, 0.002516442),
    ({"J": 1}, {}, 0.052138976),
    ({"M": 1}, {}, 0.011736345),
    ({"J": 1, "M": 1}, {}, 0.0020841002),
    ({"B": 1}, {"J": 1, "M": 1}, 0.284171835),
    ({"E": 1}, {"J": 1, "M": 1}, 0.176066838),
    ({"A": 1}, {"J": 1, "M": 1}, 0.760692039),
    ({"B": 1}, {"J": 1}, 0.016283730),
    ({"B": 1}, {"A": 1}, 0.373551228),
    ({"B": 1}, {"A": 1, "E": 1}, 0.003268424),
    ({"E": 1}, {"A": 1}, 0.231008702),
    ({"B": 1}, {"A": 0, "E": 0}, 6.01166e-5),
    ({"E": 1}, {"A": 0, "B": 0}, 0.0014222443),
    ({"A": 1}, {"B": 0, "E": 1, "J": 0, "M": 0}, 0.0128611659),
]


def weather() -> BayesianNetwork:
    """Return three variables of 3, 2 and 4 states."""
    rng = np.random.default_rng(5)
    tables = {"sky": rng.dirichlet(np.ones(3)), "rain": rng.dirichlet(np.ones(2), size=3)}
    tables["road"] = rng.dirichlet(np.ones(4), size=(2, 3))
    return BayesianNetwork(tables, {"rain": ["sky"], "road": ["rain", "sky"]})


@pytest.mark.parametrize(("event", "evidence", "probability"), ANSWERS)
def test_alarm_network(event, evidence, probability):
    assert alarm_network(**evidence).probability(event) == pytest.approx(probability, abs=1e-9)


def test_full_conditionals_are_those_of_the_tables():
    network = alarm_network()
    state = np.array([[0, 0, 0, 0, 0]])
    assert network.conditional(state, 0)[0, 1] == pytest.approx(6.01166e-5, abs=1e-9)
    assert network.conditional(np.array([[0, 1, 1, 0, 0]]), 2)[0, 1] == pytest.approx(0.0128611659, abs=1e-9)


def test_evidence_is_the_normalising_constant():
    assert np.exp(alarm_network(J=1, M=1).log_evidence()) == pytest.approx(0.0020841002, abs=1e-9)
    assert np.exp(alarm_network(B=1, E=0, J=1).given(A=1).log_evidence()) == pytest.approx(0.001 * 0.998 * 0.94 * 0.9)
    assert alarm_network().log_evidence() == pytest.approx(0.0, abs=1e-12)


def test_several_states():
    network = weather().given(road=3)
    tables = weather().tables
    by_hand = tables["sky"][:, None] * tables["rain"] * tables["road"][:, :, 3].T
    np.testing.assert_allclose(network.joint([0, 1]), by_hand / by_hand.sum(), atol=1e-12)
    states = np.array(list(itertools.product(range(3), range(2))))
    np.testing.assert_allclose(network.conditional(states, 0)[1], by_hand[:, 1] / by_hand[:, 1].sum(), atol=1e-12)


def test_ancestral_law_draws_what_it_weighs(rng):
    law = weather().ancestral()
    states = law.rvs(40_000, random_state=rng)
    shares = np.zeros((3, 2, 4))
    np.add.at(shares, tuple(states.T), 1.0 / len(states))
    exact = np.exp(law.logpmf(np.array(list(itertools.product(range(3), range(2), range(4)))))).reshape(3, 2, 4)
    assert exact.sum() == pytest.approx(1.0)
    assert np.abs(shares - exact).max() < 5 * 0.5 / np.sqrt(len(states))  # 24 cells: false-fail rate below 2e-5


def test_evidence_reaches_the_law_below_it():
    states = alarm_network(B=1, E=0).ancestral().rvs(20_000, random_state=1)
    assert states[:, 0].mean() == pytest.approx(0.94, abs=5 * np.sqrt(0.94 * 0.06 / 20_000))


@pytest.mark.parametrize(
    ("tables", "parents", "evidence", "words"),
    [
        ({"a": [0.5, 0.6]}, {}, {}, "sum to 1"),
        ({"a": [1.0]}, {}, {}, "2 to 10"),
        ({"a": [1.0 / 11] * 11}, {}, {}, "2 to 10"),
        ({"a": [0.5, 0.5]}, {"a": ["b"]}, {}, "tables"),
        ({"a": [[0.5, 0.5]] * 2, "b": [[0.5, 0.5]] * 2}, {"a": ["b"], "b": ["a"]}, {}, "cycle"),
        ({"a": [0.5, 0.5], "b": [0.5, 0.5]}, {"b": ["a"]}, {}, "needs shape"),
        ({"a": [0.5, 0.5]}, {}, {"a": 2}, "0 ... 1"),
        ({"a": [0.5, 0.5]}, {}, {"c": 0}, "is not a variable"),
        ({"a": [0.5, 0.5]}, {}, {"a": 1}, "nothing is left"),
    ],
)
def test_what_is_refused(tables, parents, evidence, words):
    with pytest.raises(InvalidInputError, match=words):
        BayesianNetwork(tables, parents, evidence)


def test_events_must_be_unobserved():
    with pytest.raises(InvalidInputError, match="unobserved"):
        alarm_network(J=1).probability({"J": 1})
