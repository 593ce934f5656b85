import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import Component, DoublyIntractableTarget, Target
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.ising import exact as ising_exact, simulators
from approxmcmc.targets.ising.simulators import coupling_simulator
from tests.simulation import counted, draw_many

CHESS = np.where(np.indices((3, 4)).sum(axis=0) % 2, 1, -1)


def ising(lattice=CHESS):
    return amc.targets.Ising(lattice, prior_scale=1.0)


def test_every_pair_counts_once():
    assert ising(np.ones((2, 2))).observed_statistics == 4
    assert ising().observed_statistics == -17 == -ising_exact.n_pairs(3, 4)
    assert ising(np.ones((1, 5))).observed_statistics == 4


def test_it_plays_its_roles():
    assert isinstance(ising(), DoublyIntractableTarget)
    assert isinstance(ising(), Target)
    assert repr(amc.targets.Ising(CHESS, prior_bounds=(-0.4, 0.8))) == "Ising(3 x 4, prior_bounds=(-0.4, 0.8))"
    assert np.array_equal(ising().observed_data["lattice"], CHESS)


@pytest.mark.parametrize(
    ("lattice", "message"),
    [
        (np.ones(4), "shape"),
        (np.ones((1, 1)), "2 sites"),
        ([[0, 1], [1, 0]], r"2 \* lattice - 1"),
        ([[-1, 2], [1, 1]], "-1 or 1"),
        ([[np.nan, 1.0], [1.0, 1.0]], "NaN"),
        ([["a", "b"], ["b", "a"]], "numbers"),
    ],
)
def test_bad_lattices_are_refused(lattice, message):
    with pytest.raises(InvalidInputError, match=message):
        ising(lattice)


@pytest.mark.parametrize(
    "prior", [{}, {"prior_scale": 1.0, "prior_bounds": (0, 1)}, {"prior_scale": -1.0}, {"prior_bounds": (1, 0)}]
)
def test_bad_priors_are_refused(prior):
    with pytest.raises(InvalidInputError, match="prior"):
        amc.targets.Ising(CHESS, **prior)


def test_log_priors():
    bounded = amc.targets.Ising(CHESS, prior_bounds=(-0.4, 0.8)).compile_log_prior()
    assert [bounded(np.array([x])) for x in (-0.5, -0.4, 0.8, 0.9)] == [-np.inf, 0.0, 0.0, -np.inf]
    normal = amc.targets.Ising(CHESS, prior_scale=2.0).compile_log_prior()
    assert normal(np.array([1.0])) == pytest.approx(-0.125)
    assert amc.targets.Ising(CHESS, prior_scale=np.inf).compile_log_prior()(np.array([9.0])) == 0.0


def test_equal_content_has_equal_hashes():
    other = CHESS.copy()
    other[0, 0] *= -1
    hashes = [ising().content_hash(), amc.targets.Ising(CHESS, prior_bounds=(0, 1)).content_hash()]
    hashes += [ising(other).content_hash(), ising(CHESS.T).content_hash()]
    assert len(set(hashes)) == 4
    assert ising(CHESS.astype(float)).content_hash() == hashes[0]


@pytest.mark.parametrize("method", ["compile", "to_pymc"])
def test_what_it_cannot_do_it_refuses(method):
    with pytest.raises(IncompatibleError, match="exchange"):
        getattr(ising(), method)()


def test_log_density_is_prior_plus_likelihood():
    target = amc.targets.Ising(CHESS, prior_scale=2.0)
    expected = -0.5 * 0.3**2 / 4 + 0.3 * -17 - ising_exact.log_normalizer(0.3, 3, 4)
    assert target.log_density(0.3) == pytest.approx(expected, abs=1e-12)
    assert amc.targets.Ising(CHESS, prior_bounds=(0, 1)).log_density(-0.1) == -np.inf
    with pytest.raises(InvalidInputError, match="1 finite"):
        target.log_normalizer([0.1, 0.2])


def test_wide_lattices_have_no_recursion():
    wide = ising(np.ones((17, 17)))
    assert wide.log_normalizer(0.2) is None
    for call in (wide.moments, wide.log_density):
        with pytest.raises(IncompatibleError):
            call(0.2)


def test_auto_is_exact_up_to_16_wide():
    narrow, wide = np.ones((2, 30)), np.ones((17, 17))
    assert ising(narrow).build_simulator("auto").exact
    assert ising(narrow).build_simulator("exact").simulate is ising_exact.draw_backwards
    assert ising(wide).build_simulator("exact").exact
    auto = ising(wide).build_simulator("auto")
    assert not auto.exact
    assert auto.make_state().n_updates == 20 * 17 * 17


@pytest.mark.parametrize("auxiliary", ["Exact", 1000, None])
def test_unknown_auxiliaries_are_refused(auxiliary):
    with pytest.raises(InvalidInputError, match="auxiliary must be"):
        ising().build_simulator(auxiliary)


@pytest.mark.parametrize(
    "settings",
    [{"n_updates": 0}, {"n_updates": 1.5}, {"n_updates": True}, {"start": "half"}, {"move": "swap"}, {"thin": 0}],
)
def test_bad_auxiliaries_are_refused(settings):
    with pytest.raises(InvalidInputError, match="AuxiliaryChain"):
        amc.targets.AuxiliaryChain(**{"n_updates": 10, **settings})


def test_auxiliaries_are_components():
    auxiliary = amc.targets.AuxiliaryChain(1000, "empty", thin=4)
    assert Component.from_dict(auxiliary.to_dict()) == auxiliary != amc.targets.AuxiliaryChain(1000, "empty")
    with pytest.raises(InvalidInputError, match="heat bath"):
        ising().build_simulator(amc.targets.AuxiliaryChain(10, move="tnt"))


def test_change_statistics_are_those_of_a_flip():
    response, design = ising().change_statistics()
    assert response.tolist() == (CHESS.ravel() > 0).tolist()
    for site in range(CHESS.size):
        up, down = CHESS.copy().ravel(), CHESS.copy().ravel()
        up[site], down[site] = 1, -1
        flipped = [ising(lattice.reshape(CHESS.shape)).observed_statistics for lattice in (up, down)]
        assert design[site] == flipped[0] - flipped[1]


def spins_after(auxiliary, n_draws, theta=0.3):
    simulator = ising().build_simulator(auxiliary)
    state = simulator.make_state()
    out, count = draw_many(simulator, theta, n_draws, np.random.default_rng(1), state=state)
    assert out[-1, 0] == ising(state.spins[1:-1, 1:-1]).observed_statistics[0]
    assert counted(count, "statistic_evaluations") == n_draws
    return state.spins[1:-1, 1:-1], counted(count, "auxiliary_updates")


@pytest.mark.parametrize(("start", "spins"), [("empty", [-1, -1]), ("full", [1, 1]), ("both", [-1, 1])])
def test_chains_start_where_they_are_told(start, spins):
    for n_draws in (1, 2):  # at an infinite field nothing moves but the site that is updated
        lattice, updates = spins_after(amc.targets.AuxiliaryChain(1, start), n_draws, theta=50.0)
        assert updates == n_draws
        assert (lattice == spins[n_draws - 1]).all()


def test_the_observed_lattice_is_a_start():
    lattice, _ = spins_after(amc.targets.AuxiliaryChain(1, "observed"), 1, theta=-50.0)
    assert np.array_equal(lattice, CHESS)


class Zeros:
    """A generator of nothing but zeros: every site that is updated goes up."""

    def random(self):
        return 0.0


def up_after(monkeypatch, auxiliary, n_draws):
    update = simulators.update_sites
    monkeypatch.setattr(simulators, "update_sites", getattr(update, "py_func", update))
    simulator = ising().build_simulator(auxiliary)
    state = simulator.make_state()
    draw_many(simulator, 0.1, n_draws, Zeros(), state=state, plain=True)
    return state.spins[1:-1, 1:-1] == 1


def test_a_sweep_updates_every_site_once_one_colour_first(monkeypatch):
    for n_updates in range(1, 13):
        up = up_after(monkeypatch, amc.targets.AuxiliaryChain(n_updates, "empty"), 1)
        first = (CHESS == -1) if n_updates <= 6 else up
        assert up.sum() == n_updates
        assert not (up & ~first).any()


def test_thinned_draws_continue_the_chain_of_their_theta(monkeypatch):
    assert up_after(monkeypatch, amc.targets.AuxiliaryChain(4, "empty", thin=3), 3).sum() == 10
    assert up_after(monkeypatch, amc.targets.AuxiliaryChain(4, "empty"), 3).sum() == 4


SIMULATORS = {
    "heat bath": lambda: ising().build_simulator(amc.targets.AuxiliaryChain(31, "both")),
    "backward": lambda: ising_exact.backward_simulator(3, 4),
    "coupling": lambda: coupling_simulator(3, 4),
}


# Of generator 3 at theta = 0.35; found with compilation, and the same without.
DRAWS = {
    "heat bath": [5, 13, 7, 13, 17, 7, 11, 17, 7, 7],
    "backward": [13, 3, 3, 7, 7, 11, -3, 11, 7, 7],
    "coupling": [7, 1, 13, 11, 5, 11, 7, 3, 7, -1],
}


@pytest.mark.parametrize("name", SIMULATORS)
def test_draws_are_the_same_with_and_without_compilation(name):
    draws, _ = draw_many(SIMULATORS[name](), 0.35, 10, np.random.default_rng(3))
    assert draws[:, 0].tolist() == DRAWS[name]


@pytest.mark.parametrize("theta", [0.4, -0.4])
def test_counts_of_exact_draws(theta):
    _, count = draw_many(ising_exact.backward_simulator(2, 3), theta, 5, np.random.default_rng(0))
    assert (counted(count, "auxiliary_updates"), counted(count, "statistic_evaluations")) == (30, 5)
