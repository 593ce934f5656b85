"""Runs on mapped files, on sources and on models of PyMC resume from their checkpoint, bit by bit."""

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms import order
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import Arrays
from tests.equivalence.test_checkpoint import QUICK, Killed, assert_equal_traces, kill, plain_python, uncompiled

__all__ = ["kill", "uncompiled"]  # fixtures
N = 400


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))


def rows():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 2)).astype(np.float32)
    return X, (X[:, 0] + rng.logistic(size=N) > 0).astype(float)


def mapped(folder):
    """Return a target on a file, which is mapped anew, as by another process."""
    X, y = rows()
    if not (folder / "X").exists():
        X.tofile(folder / "X")
    return amc.targets.LogisticRegression(np.memmap(folder / "X", np.float32, "r", shape=X.shape), y)


def from_sources(folder):
    return amc.targets.LogisticRegression(*map(Arrays, rows()))


def pymc_model(folder):
    """Return a target of a model of PyMC, which is written anew."""
    X, y = rows()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=X[:40].astype(float) @ beta, observed=y[:40].astype(int))
    return amc.from_pymc(model)


def sampler_on(place):
    test = amc.SequentialTTest(0.2, 8, order="blocks")
    return amc.MetropolisHastings(amc.RandomWalk(0.3, target_acceptance=0.3), test, shuffled_copy=str(place))


@plain_python
@pytest.mark.parametrize("make", [mapped, from_sources, pymc_model])
def test_a_run_goes_on(make, tmp_path, kill):
    path, sampler = tmp_path / "run.nc", sampler_on(tmp_path)
    whole = amc.sample(make(tmp_path), sampler, **QUICK)
    kill(4)
    with pytest.raises(Killed):
        amc.sample(make(tmp_path), sampler, checkpoint=path, **QUICK)
    kill.never()
    again = amc.sample(make(tmp_path), sampler, checkpoint=path, **QUICK)
    assert_equal_traces(whole, again)
    longer = amc.sample(make(tmp_path), sampler, **{**QUICK, "draws": 40})
    assert_equal_traces(longer, amc.resume(path, make(tmp_path), draws=10))


@plain_python
def test_a_run_on_a_copy_that_others_share_goes_on(tmp_path, kill, monkeypatch):
    monkeypatch.setattr(order, "ENOUGH_BLOCKS", 10)
    test_a_run_goes_on(mapped, tmp_path, kill)
    assert len(list(tmp_path.glob("*.npy"))) == 1


@plain_python
def test_a_file_that_has_changed_in_one_bit_is_another_target(tmp_path):
    path, sampler = tmp_path / "run.nc", sampler_on(tmp_path)
    amc.sample(mapped(tmp_path), sampler, checkpoint=path, **QUICK)
    X = np.memmap(tmp_path / "X", np.int32, "r+")
    X[-1] ^= 1
    X.flush()
    with pytest.raises(InvalidInputError, match="target"):
        amc.resume(path, mapped(tmp_path), draws=10)
