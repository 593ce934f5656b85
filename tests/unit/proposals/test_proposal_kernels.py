"""One step of each proposal with a covariance, alone and coupled, against the same formulas in NumPy.

In three dimensions, with unequal variances and correlations, so that no index, factor or sign can be exchanged.
"""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts.speaker import speaking
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals import langevin_step, single_site
from tests.langevin import normal_means
from tests.models import logistic
from tests.planting import plain

pytestmark = pytest.mark.recompiles
TARGET = normal_means(20, dim=3)
SIGMA = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
SDS, L = np.array([1.2, 0.5, 2.0]), np.linalg.cholesky(SIGMA)
X, Y, CENTER = np.array([0.3, -1.1, 0.7]), np.array([0.9, -0.6, 1.6]), np.array([-0.4, 0.2, 1.0])
COUNT = np.zeros(64, np.int64)


def normals(seed, size=3):
    return np.random.default_rng(seed).standard_normal(size)


def coupled_noise(seed, z):
    """Return the noise of both chains, and whether they go to one point, by the formulas of `proposals/reflection`."""
    rng = np.random.default_rng(seed)
    xi = rng.standard_normal(3)
    if math.log(1.0 - rng.random()) <= -xi @ z - 0.5 * z @ z:
        return xi, xi + z, True
    return xi, xi - 2.0 * (xi @ z) / (z @ z) * z, False


class TestRandomWalk:
    WALKS = (
        (amc.RandomWalk(0.7), 0.7 * np.eye(3)),
        (amc.RandomWalk(SDS), np.diag(SDS)),
        (amc.RandomWalk(SIGMA), L),
        (amc.RandomWalk(0.5, preconditioner=SIGMA), 0.5 * L),
        (amc.RandomWalk(0.5, preconditioner=SDS), 0.5 * np.diag(SDS)),
    )

    @pytest.mark.parametrize(("walk", "root"), WALKS, ids=repr)
    def test_a_step_has_the_covariance(self, walk, root):
        part, out = walk.build_proposal(TARGET), np.empty(3)
        state = part.make_state()
        for log_factor in (0.0, 0.3):
            assert state.log_factor.shape == (1,)
            state.log_factor[0] = log_factor
            assert plain(part.propose)(np.random.default_rng(5), state, X, out, COUNT) == 0.0
            np.testing.assert_allclose(out, X + math.exp(log_factor) * root @ normals(5), rtol=1e-13)

    @pytest.mark.parametrize(("walk", "root"), WALKS, ids=repr)
    def test_two_chains_step_together_or_mirrored(self, walk, root):
        part = walk.build_proposal(TARGET)
        state, other = part.make_state(), part.make_state()
        state.log_factor[0] = other.log_factor[0] = 0.3
        root, met = math.exp(0.3) * root, []
        for seed in range(40):
            x_new, y_new, noise = np.empty(3), np.empty(3), np.empty((2, 3))
            rng = np.random.default_rng(seed)
            found = plain(part.couple)(rng, state, other, X, Y, x_new, y_new, noise, COUNT)
            xi, xi_y, same = coupled_noise(seed, np.linalg.solve(root, X - Y))
            assert found == (0.0, 0.0)
            np.testing.assert_allclose(x_new, X + root @ xi, rtol=1e-12)
            np.testing.assert_allclose(y_new, Y + root @ xi_y, rtol=1e-12)
            assert (x_new == y_new).all() == same
            met.append(same)
        assert 0 < sum(met) < 40

    def test_tuning_follows_the_acceptance(self):
        part = amc.RandomWalk(0.7, target_acceptance=0.3).build_proposal(TARGET)
        state = part.make_state()
        assert (state.log_factor.tolist(), state.target_acceptance) == ([0.0], 0.3)
        plain(part.adapt)(state, 0.5, 3)
        assert state.log_factor[0] == pytest.approx(0.2 / 4.0**0.6)
        plain(part.adapt)(state, 0.1, 0)
        assert state.log_factor[0] == pytest.approx(0.2 / 4.0**0.6 - 0.2)
        assert part.describe(state) == {"scale_factor": pytest.approx(math.exp(0.2 / 4.0**0.6 - 0.2))}
        part.restore(state, {"scale_factor": 2.5})
        assert state.log_factor[0] == pytest.approx(math.log(2.5))
        untuned = amc.RandomWalk(0.7).build_proposal(TARGET)
        assert untuned.adapt is None and untuned.make_state().target_acceptance == 0.0

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"scale": math.inf}, "scale must be finite"),
            ({"scale": [1.0, math.nan]}, "scale must be finite"),
            ({"scale": 0.0}, "standard deviations must be positive, found 0"),
            ({"scale": [1.0, -0.5]}, "standard deviations must be positive, found -0.5"),
            ({"scale": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
            ({"scale": np.ones((2, 2, 2))}, r"a number, a vector or a matrix, found shape \(2, 2, 2\)"),
            ({"target_acceptance": 0.0}, "strictly between 0 and 1"),
            ({"target_acceptance": 1.0}, "strictly between 0 and 1"),
            ({"scale": SDS, "preconditioner": SIGMA}, r"with a preconditioner scale is a number, found shape \(3,\)"),
        ],
    )
    def test_settings_out_of_range(self, settings, message):
        with pytest.raises(InvalidInputError, match=message):
            amc.RandomWalk(**settings)

    def test_settings_at_their_ends(self):
        usual = amc.RandomWalk()
        assert (usual.scale, usual.target_acceptance, usual.preconditioner) == (1.0, None, None)
        assert type(amc.RandomWalk(np.array(2.0)).scale) is float
        assert amc.RandomWalk(1e-9, target_acceptance=1e-9).target_acceptance == 1e-9
        assert amc.RandomWalk(0.5, target_acceptance=1.0 - 1e-9).scale == 0.5
        assert repr(amc.RandomWalk(0.5)) == "RandomWalk(scale=0.5, target_acceptance=None)"
        assert repr(amc.RandomWalk(0.5, 0.3, SIGMA)).endswith("target_acceptance=0.3, preconditioner=(3, 3))")
        for scale in (SDS[:2], SIGMA[:2, :2]):
            with pytest.raises(IncompatibleError, match=r"the target has 3 parameters, scale .* has shape"):
                amc.RandomWalk(scale).build_proposal(TARGET)


EMPTY = np.empty(0), np.empty((0, 0))
SPREADS = {"diagonal": (np.diag(SDS), SDS, EMPTY[1]), "dense": (L, EMPTY[0], np.ascontiguousarray(L.T))}


@pytest.mark.parametrize("kind", SPREADS)
class TestLangevinStep:
    def test_drift(self, kind):
        root, scale, upper = SPREADS[kind]
        out = np.empty(3)
        plain(langevin_step.drift)(0.3, scale, upper, X, Y, out)
        np.testing.assert_allclose(out, X + 0.15 * root @ root.T @ Y, rtol=1e-13)

    def test_noise(self, kind):
        root, scale, upper = SPREADS[kind]
        out, z = X.copy(), normals(5)
        squared = plain(langevin_step.add_noise)(np.random.default_rng(5), 0.3, scale, upper, out)
        np.testing.assert_allclose(out, X + math.sqrt(0.3) * root @ z, rtol=1e-13)
        assert squared == pytest.approx(z @ z)

    def test_given_noise(self, kind):
        root, scale, upper = SPREADS[kind]
        out = X.copy()
        plain(langevin_step.add_given_noise)(0.3, scale, upper, Y, out)
        np.testing.assert_allclose(out, X + math.sqrt(0.3) * root @ Y, rtol=1e-13)

    def test_distance(self, kind):
        root, scale, upper = SPREADS[kind]
        found = plain(langevin_step.squared_distance)(scale, upper, CENTER, X, np.empty(3))
        difference = np.linalg.solve(root, X - CENTER)
        assert found == pytest.approx(difference @ difference)


class TestLangevinSettings:
    def test_a_preconditioner_is_nothing_a_vector_or_a_covariance(self):
        checked = langevin_step.checked_preconditioner
        assert checked(None) is None
        np.testing.assert_array_equal(checked([0.5, 2.0]), [0.5, 2.0])
        np.testing.assert_array_equal(checked(SIGMA), SIGMA)
        for wrong in ([1.0, 0.0], [1.0, math.inf], [], 2.0, -SIGMA, SIGMA[:2]):
            with pytest.raises(InvalidInputError, match="P: "), speaking("P"):
                checked(wrong)

    def test_what_kernels_need_of_it(self):
        spread = langevin_step.spread_of
        for given, scale, upper in ((None, np.ones(3), EMPTY[1]), (SDS, SDS, EMPTY[1]), (SIGMA, EMPTY[0], L.T)):
            found = spread(given, 3)
            np.testing.assert_array_equal(found.scale, scale)
            np.testing.assert_array_equal(found.upper, upper)
            assert found.upper.flags.c_contiguous and found.scale is not given
        with (
            pytest.raises(IncompatibleError, match=r"P: the target has 2 parameters, .* has shape \(3,\)"),
            speaking("P"),
        ):
            spread(SDS, 2)

    def test_a_target_must_have_gradients(self):
        assert langevin_step.gradient_of(TARGET) is not None
        with pytest.raises(IncompatibleError, match="P needs the gradient of the log density"), speaking("P"):
            langevin_step.gradient_of(amc.targets.alarm_network())

    def test_a_step_size_is_one_positive_number(self):
        checked = langevin_step.checked_step_size
        assert [checked(size) for size in (1e-9, 0.5, 2, np.float32(3.0))] == [1e-9, 0.5, 2.0, 3.0]
        for wrong in (0.0, -0.5, math.inf, math.nan, True, [0.1], np.ones(1)):
            with pytest.raises(InvalidInputError, match="P: step_size is the variance of the noise"), speaking("P"):
                checked(wrong)


class TestCrankNicolson:
    RHO = 0.6

    def part(self):
        return amc.proposals.PreconditionedCrankNicolson(self.RHO, CENTER, SIGMA).build_proposal(TARGET)

    def log_density(self, theta):
        phi = np.linalg.solve(L, theta - CENTER)
        return -0.5 * phi @ phi

    def test_steps_wherever_the_chain_has_gone(self):
        """To the proposed point, back, and where another proposal has moved it: what is remembered is right."""
        part, out = self.part(), np.empty(3)
        state, theta = part.make_state(), X.copy()
        for seed, moves in enumerate((False, True, True, False, None, True, None, False)):
            ratio = plain(part.propose)(np.random.default_rng(seed), state, theta, out, COUNT)
            expected = CENTER + self.RHO * (theta - CENTER) + 0.8 * L @ normals(seed)
            np.testing.assert_allclose(out, expected, rtol=1e-12)
            assert ratio == pytest.approx(self.log_density(theta) - self.log_density(out), abs=1e-12)
            np.testing.assert_allclose(L @ state.phi, theta - CENTER, rtol=1e-12)
            theta = out.copy() if moves else theta + 0.1 if moves is None else theta

    def test_the_memory_is_used(self):
        """A point that was proposed, or from where the chain has proposed, is not whitened again."""
        part, out, calls = self.part(), np.empty(3), []
        whiten = amc.proposals.crank_nicolson.whiten

        def counted(*arguments):
            calls.append(arguments)
            plain(whiten)(*arguments)

        propose, state = plain(part.propose, {whiten: counted}), part.make_state()
        for theta in (X, X, out, out):
            propose(np.random.default_rng(1), state, theta.copy(), out, COUNT)
        assert len(calls) == 1  # X

    def test_two_chains_propose_one_point_or_mirrored(self):
        part, met = self.part(), []
        for seed in range(40):
            state, other = part.make_state(), part.make_state()
            x_new, y_new, noise = np.empty(3), np.empty(3), np.empty((2, 3))
            rng = np.random.default_rng(seed)
            for_x, for_y = plain(part.couple)(rng, state, other, X, Y, x_new, y_new, noise, COUNT)
            xi, xi_y, same = coupled_noise(seed, self.RHO * np.linalg.solve(L, X - Y) / 0.8)
            np.testing.assert_allclose(x_new, CENTER + self.RHO * (X - CENTER) + 0.8 * L @ xi, rtol=1e-12)
            np.testing.assert_allclose(y_new, CENTER + self.RHO * (Y - CENTER) + 0.8 * L @ xi_y, rtol=1e-12)
            assert for_x == pytest.approx(self.log_density(X) - self.log_density(x_new), abs=1e-12)
            assert for_y == pytest.approx(self.log_density(Y) - self.log_density(y_new), abs=1e-12)
            np.testing.assert_allclose(L @ other.phi_there, y_new - CENTER, rtol=1e-12)
            np.testing.assert_array_equal(other.there, y_new)
            assert (x_new == y_new).all() == same
            met.append(same)
        assert 0 < sum(met) < 40

    def test_draws_of_a_start(self):
        for law in (
            amc.proposals.PreconditionedCrankNicolson(0.5, CENTER, SIGMA),
            amc.proposals.Independence(CENTER, SIGMA),
        ):
            np.testing.assert_allclose(law.draw_start(np.random.default_rng(5)), CENTER + L @ normals(5))
        state = amc.proposals.Independence(CENTER, SIGMA).build_proposal(TARGET).make_state()
        assert (state.rho, state.spread) == (0.0, 1.0)
        assert all(np.isnan(values).all() and values.shape == (3,) for values in state[4:])

    @pytest.mark.parametrize("rho", [-1.0, 1.0, math.nan])
    def test_rho_lies_strictly_between_its_ends(self, rho):
        with pytest.raises(InvalidInputError, match="rho must lie strictly between -1 and 1"):
            amc.proposals.PreconditionedCrankNicolson(rho, CENTER, SIGMA)
        assert amc.proposals.PreconditionedCrankNicolson(-1.0 + 1e-9, CENTER, SIGMA).rho == -1.0 + 1e-9
        assert amc.proposals.PreconditionedCrankNicolson(1.0 - 1e-9, CENTER, SIGMA).rho == 1.0 - 1e-9

    def test_a_law_is_a_center_and_a_covariance(self):
        np.testing.assert_array_equal(amc.proposals.Independence(CENTER, SDS).cov, np.diag(SDS**2))
        fit = amc.numerics.Laplace(CENTER, SIGMA)
        np.testing.assert_array_equal(amc.proposals.Independence(fit).mean, CENTER)
        np.testing.assert_array_equal(amc.proposals.Independence(fit).cov, SIGMA)
        for center, cov, message in (
            (fit, SIGMA, "gives the covariance too"),
            (CENTER, None, "give a covariance with the center"),
            (CENTER, [1.0, 0.0, 1.0], r"found shapes \(3,\) and \(3,\)"),
            (CENTER[:2], SIGMA, r"found shapes \(2,\) and \(3, 3\)"),
            (CENTER[:, None], SIGMA, r"found shapes \(3, 1\) and \(3, 3\)"),
            ([0.0, math.nan, 0.0], SIGMA, "the center must be finite numbers"),
            (CENTER, -SIGMA, "positive definite"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                amc.proposals.Independence(center, cov)
        with pytest.raises(IncompatibleError, match="the target has 2 parameters, the proposal 3"):
            amc.proposals.Independence(fit).build_proposal(logistic(12, 2))


@pytest.mark.parametrize(("u", "end"), [(0.0, [0, 2, 1]), (0.49, [0, 2, 1]), (0.51, [1, 2, 1]), (0.99, [1, 2, 1])])
def test_a_site_goes_to_one_of_its_other_states(u, end):
    """Of three sites with 3, 4 and 2 states the first, which is in the last of its states."""
    numbers = iter([0.1, u])
    rng, out = types.SimpleNamespace(random=lambda: next(numbers)), np.empty(3)
    state = single_site.SiteState(np.array([3, 4, 2]))
    assert plain(single_site.propose)(rng, state, np.array([2.0, 2.0, 1.0]), out, COUNT) == 0.0
    assert out.tolist() == end


def test_two_chains_change_one_site_to_one_state_or_trade_theirs(rng):
    """Coupled, the second chain proposes what the first does, but the first's state where that proposes its own."""
    state, met = single_site.SiteState(np.array([3, 4, 2])), set()
    for _ in range(60):
        x, y = (np.floor(rng.random(3) * state.n_states) for _ in range(2))
        x_new, y_new = np.empty(3), np.empty(3)
        assert plain(single_site.couple)(rng, state, state, x, y, x_new, y_new, None, COUNT) == (0.0, 0.0)
        (site,) = np.flatnonzero(x_new != x)
        traded = x_new[site] == y[site]
        met.add(bool(traded))
        assert y_new[site] == (x[site] if traded else x_new[site]) != y[site]
        assert (np.delete(y_new, site) == np.delete(y, site)).all()
    assert met == {True, False}


@pytest.mark.parametrize(("site", "u", "end"), [(0.4, 0.4, 1), (0.4, 0.7, 3), (0.6, 0.3, 0), (0.99, 0.99, 0)])
def test_the_state_that_it_leaves_is_left_out(site, u, end):
    numbers = iter([site, u])
    rng, out = types.SimpleNamespace(random=lambda: next(numbers)), np.empty(3)
    plain(single_site.propose)(rng, single_site.SiteState(np.array([3, 4, 2])), np.array([2.0, 2.0, 1.0]), out, COUNT)
    changed = int(site * 3)
    assert out[changed] == end and (np.delete(out, changed) == np.delete([2.0, 2.0, 1.0], changed)).all()
