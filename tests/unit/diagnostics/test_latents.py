"""Effects that were integrated out come back: exact draws given theta, under the groups' labels."""

import zlib

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import approxmcmc as amc
from approxmcmc.diagnostics.latents import SEED, with_folder, with_latents
from approxmcmc.errors import CacheWarning, IncompatibleError, InvalidInputError, LeftOutWarning
from approxmcmc.targets import GroupedTarget, NormalGroups
from tests.unit.targets.test_grouped_target import Data, log_density
from tests.unit.test_leave_one_out import posterior_of

N_DRAWS = 4000
# Largest sqrt(n) D of Kolmogorov and Smirnov at a false-fail rate of 1e-6 a test: a law that is shifted by a tenth of
# its standard deviation has sqrt(n) D of 2.5 at 4000 draws.
LARGEST_KS = 2.69


def by_grid(data, g, theta, family_size=1):
    """Return a grid of the effect sigma z of one group, and its distribution function given theta."""
    rows = data.groups == g
    eta, y = data.X[rows] @ theta[:3], data.y[rows]
    z = np.linspace(-9.0, 9.0, 60_001)
    blocks = [
        log_density(data.family, eta[:, None] + theta[3] * part, y[:, None], family_size).sum(axis=0)
        for part in np.array_split(z, 200)
    ]
    log_density_of_z = np.concatenate(blocks) + stats.norm.logpdf(z)
    mass = np.cumsum(np.exp(log_density_of_z - log_density_of_z.max()))
    return theta[3] * z, mass / mass[-1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case", ["logit", "logit, large scale", "logit, small scale", "poisson, large counts", "probit"]
)
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_draws_follow_the_law_of_the_effect_given_the_rows(case, shift):
    data = Data(case, [1, 6, 60])
    target = data.target()
    theta = data.center + shift * np.array([1.0, -0.5, 0.2, data.sigma])  # far from where starts are stored
    drawn = target.draw_latents(np.random.default_rng(0), np.tile(theta, (N_DRAWS, 1)), np.arange(3))
    for g in range(3):
        grid, cdf = by_grid(data, g, theta)
        found = stats.kstest(drawn[:, g], lambda x, grid=grid, cdf=cdf: np.interp(x, grid, cdf)).statistic
        assert np.sqrt(N_DRAWS) * found < LARGEST_KS
        shifted = drawn[:, g] + 0.15 * drawn[:, g].std()
        wrong = stats.kstest(shifted, lambda x, grid=grid, cdf=cdf: np.interp(x, grid, cdf)).statistic
        assert np.sqrt(N_DRAWS) * wrong > LARGEST_KS


@pytest.mark.parametrize("slopes", [False, True])
def test_normal_effects_have_their_mean_and_covariance(slopes):
    rng = np.random.default_rng(1)
    groups, U = np.repeat([0, 1, 2], [1, 4, 12]), rng.normal(size=17)
    y = 1.0 + rng.normal(size=17)
    target = NormalGroups(np.ones((17, 1)), y, groups, slopes=U if slopes else None)
    theta = np.array([0.7, 1.2, 0.4, -0.8, -0.3]) if slopes else np.array([0.7, -1.2, -0.3])
    drawn = target.draw_latents(np.random.default_rng(2), np.tile(theta, (20_000, 1)), np.arange(3))
    L, tau = target.variables.cholesky(theta), np.exp(theta[-1])
    Z = np.column_stack([np.ones(17), U])[:, : len(L)]
    for g in range(3):
        rows = groups == g
        joint = Z[rows] @ L @ L.T @ Z[rows].T + tau**2 * np.eye(rows.sum())
        gain = L @ L.T @ Z[rows].T @ np.linalg.inv(joint)
        mean, cov = gain @ (y[rows] - 0.7), L @ L.T - gain @ Z[rows] @ L @ L.T
        found = drawn[:, g].reshape(20_000, -1)
        assert np.abs((found.mean(axis=0) - mean) / np.sqrt(np.diag(cov) / 20_000)).max() < 5.0
        assert np.cov(found.T).reshape(cov.shape) == pytest.approx(cov, abs=0.05 * np.diag(cov).max())


def test_latents_reads_a_trace_and_keeps_its_labels():
    rng = np.random.default_rng(3)
    town = np.array(["Ulm", "Bonn", "Ulm", "Kiel", "Bonn"])
    target = NormalGroups(np.ones((5, 1)), rng.normal(size=5), town, slopes=rng.normal(size=5))
    trace = posterior_of(target, rng.normal(size=(2, 7, target.variables.size)))
    found = amc.latents(trace, target)
    assert found["effect"].dims == ("chain", "draw", "group", "effect_name")
    assert found.group.to_numpy().tolist() == ["Bonn", "Kiel", "Ulm"]
    assert found.effect_name.to_numpy().tolist() == ["intercept", "slope_1"]
    one = amc.latents(trace, target, groups="Kiel", random_seed=1)
    assert dict(one.sizes) == {"chain": 2, "draw": 7, "group": 1, "effect_name": 2}
    assert (amc.latents(trace, target)["effect"] == found["effect"]).all()
    with pytest.raises(InvalidInputError, match=r"needs labels of the 3 groups .*Hof"):
        amc.latents(trace, target, groups=["Hof"])
    with pytest.raises(IncompatibleError, match="needs the target that integrates effects out"):
        amc.latents(trace, amc.targets.LogisticRegression(np.ones((2, 1)), [0, 1]))


def test_a_scale_of_zero_leaves_no_effect():
    data = Data("logit", [2, 3])
    target = GroupedTarget(data.X, data.y, data.groups, at=data.center)
    drawn = target.draw_latents(np.random.default_rng(0), data.center[None] * [1, 1, 1, 0], np.arange(2))
    assert not drawn.any()


@pytest.mark.thorough
@pytest.mark.parametrize("fails", [False, True])
def test_all_effects_go_to_a_folder_whole_or_not_at_all(fails, tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    rng, path = np.random.default_rng(3), tmp_path / "effects.zarr"
    target = NormalGroups(np.ones((6, 1)), rng.normal(size=6), ["a", "b", "c"] * 2)
    trace = posterior_of(target, rng.normal(size=(2, 7, target.variables.size)))
    monkeypatch.setitem(with_latents.__globals__, "AT_ONCE", 12)  # two draws at a time
    monkeypatch.setattr(target, "latents_wanted", str(path))
    if fails:
        right, calls = target.draw_latents, iter([False, False, True])
        broken = lambda *given: 1 / 0 if next(calls) else right(*given)  # noqa: E731  # one line beside the one it breaks
        monkeypatch.setattr(target, "draw_latents", broken)
        with pytest.warns(LeftOutWarning, match="the trace lacks effect .* not drawn: ZeroDivisionError"):
            found = with_latents(trace, target)
        assert found.posterior["effect"].isnull().all() and "ZeroDivisionError" in found.posterior.attrs["latents"]
        assert list(tmp_path.iterdir()) == []
        return
    found = with_latents(trace, target)
    assert found.posterior["effect"].isnull().all() and found.posterior.attrs["latents"] == f"all groups are in {path}"
    with xr.open_zarr(path, consolidated=False) as written:
        assert written["effect"].shape == (2, 7, 3) and written["group"].values.tolist() == ["a", "b", "c"]
        seed = np.random.default_rng([SEED, zlib.crc32(b"None")])
        some = xr.DataTree.from_dict({"posterior": trace["posterior"].to_dataset().isel(draw=slice(0, 2))})
        expected = amc.latents(some, target, random_seed=seed)["effect"]
        np.testing.assert_allclose(written["effect"][:, :2], expected, rtol=1e-6)
        assert np.isfinite(written["effect"]).all()
    assert list(tmp_path.iterdir()) == [path]
    chunk = path / "effect" / "c" / "0" / "0" / "0"
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    with xr.open_zarr(path, consolidated=False) as damaged, pytest.raises(ValueError, match="checksum"):
        damaged.load()


@pytest.mark.thorough
def test_a_folder_that_lacks_a_chunk_is_written_again(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    rng, path = np.random.default_rng(3), tmp_path / "effects.zarr"
    target = NormalGroups(np.ones((6, 1)), rng.normal(size=6), ["a", "b", "c"] * 2)
    monkeypatch.setitem(with_latents.__globals__, "AT_ONCE", 12)  # two draws at a time
    monkeypatch.setattr(target, "latents_wanted", str(path))
    trace = with_latents(posterior_of(target, rng.normal(size=(2, 7, target.variables.size))), target)
    whole = xr.load_dataset(path, engine="zarr", consolidated=False)
    with_folder(trace, target)  # nothing is missing: no warning, and nothing is written
    (path / "effect" / "c" / "0" / "1" / "0").unlink()
    assert xr.load_dataset(path, engine="zarr", consolidated=False)["effect"].isnull().any()
    with pytest.warns(CacheWarning, match=r"effects.zarr is written again: chunks of effect are missing"):
        with_folder(trace, target)
    xr.testing.assert_identical(xr.load_dataset(path, engine="zarr", consolidated=False), whole)
