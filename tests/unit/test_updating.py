"""Draws of data that have grown: history, starts, the centre, and rows that do not fit."""

import json

import numpy as np
import pytest
from scipy.stats import kstest

import approxmcmc as amc
from approxmcmc import updating
from approxmcmc.contracts import Component
from approxmcmc.diagnostics.drift import fit_of_block
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.expansion.posterior import expansion_of

pytestmark = pytest.mark.uncompiled
RUN = {"draws": 12, "tune": 4, "random_seed": 1, "progressbar": False}


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(400, 2))
    return X, (rng.random(400) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(float)


def first_run(X, y):
    split = amc.ControlVariate(amc.LogisticRegression(X[:200], y[:200]))
    proposal = amc.proposals.PreconditionedCrankNicolson(0.0, split.laplace)
    sampler = amc.MetropolisHastings(proposal, amc.PoissonTest())
    return amc.sample(split, sampler, chains=2, **RUN), split


def test_an_update_has_the_posterior_of_all_rows_and_a_history(rows):
    X, y = rows
    trace, split = first_run(X, y)
    trace, split = amc.update(trace, split, {"X": X[200:300], "y": y[200:300]}, block="Monday", **RUN)
    trace, split = amc.update(trace, split, (X[300:], y[300:]), block="Tuesday", **RUN)
    assert split.blocks.names == ["first", "Monday", "Tuesday"]
    history = json.loads(trace["posterior"].attrs["updates"])
    assert [record["block"] for record in history] == ["Monday", "Tuesday"]
    assert [record["rows"] for record in history] == [100, 100]
    assert [record["rows_reused"] for record in history] == [200, 300]
    assert history[1]["content"] == split.blocks[2].content
    assert trace["posterior"].attrs["target_content_hash"] == split.content_hash()
    sampler = Component.from_dict(json.loads(trace["posterior"].attrs["inference_library_settings"]))
    assert np.allclose(sampler.proposal.center, split.laplace.mode)  # the law of the grown target, not of the first
    table = amc.diagnose(trace).set_index("check")
    assert table.loc["fit of new rows", "verdict"] == "ok"
    assert trace["posterior"].attrs["setup_likelihood_evaluations"] == 0  # no pass checks the starts


@pytest.mark.thorough
def test_rows_that_do_not_fit_are_reported_with_their_day(rows):
    X, y = rows
    trace, split = first_run(X, y)
    wrong = {"X": X[200:], "y": 1.0 - y[200:]}
    with pytest.raises(InvalidInputError, match=r"'Friday' do not fit .* Nothing was changed"):
        amc.update(trace, split, wrong, block="Friday", on_drift="raise", **RUN)
    with pytest.warns(SamplingWarning, match="'Friday' do not fit"):
        trace, _ = amc.update(trace, split, wrong, block="Friday", **RUN)
    assert "fit of new rows" in trace["posterior"].attrs["problems"]
    assert amc.diagnose(trace).set_index("check").loc["fit of new rows", "where"] == "block Friday"


@pytest.mark.thorough
def test_a_new_centre_when_it_pays_or_is_asked_for(rows, monkeypatch):
    X, y = rows
    trace, split = first_run(X, y)
    day = (X[200:], y[200:])
    _, kept = amc.update(trace, split, day, new_centre=False, **RUN)
    assert np.array_equal(kept.center, split.center)
    _, placed = amc.update(trace, split, day, new_centre=True, **RUN)
    assert np.allclose(placed.center, amc.laplace(amc.LogisticRegression(X, y)).mode, atol=1e-3)
    monkeypatch.setattr(updating, "PASSES", 0)  # a new centre is free
    monkeypatch.setattr(updating, "reads_of_residuals", lambda target: float(target.n_obs))
    trace, again = amc.update(trace, split, day, **RUN)
    assert not np.array_equal(again.center, split.center)
    assert "a decision needs 400 rows" in json.loads(trace["posterior"].attrs["updates"])[0]["centre"]["why"]


def test_what_cannot_be_updated(rows):
    X, y = rows
    trace, split = first_run(X, y)
    with pytest.raises(InvalidInputError, match="on other data"):
        amc.update(trace, split.append(X[200:], y[200:]), (X[:9], y[:9]), **RUN)
    with pytest.raises(IncompatibleError, match="needs a target that grows"):
        amc.update(trace, amc.targets.GaussianMixture(y + 0.1), (X, y), **RUN)


def test_fitting_rows_have_uniform_probabilities(rng):
    """False-fail rate 1e-6 (Kolmogorov-Smirnov); a score without the posterior's own error is rejected."""
    dim = 3
    n_before = 300
    n_new = 200  # of the size of the earlier rows: the posterior's own error counts
    found = np.empty((2, 300))
    for k in range(found.shape[1]):
        X = rng.normal(size=(n_before + n_new, dim))
        y = X @ [0.3, -0.2, 0.1] + rng.normal(size=len(X))
        cov = np.linalg.inv(X[:n_before].T @ X[:n_before])
        mean = cov @ X[:n_before].T @ y[:n_before]
        residuals = y[n_before:] - X[n_before:] @ mean
        gradients = residuals[:, None] * X[n_before:]
        hessian = -X[n_before:].T @ X[n_before:]
        for j, own in enumerate((cov, 0.0 * cov)):
            fit = fit_of_block(gradients.sum(axis=0), hessian, gradients.T @ gradients, own, "abc")
            found[j, k] = fit.probability
    assert kstest(np.sqrt(found[0]), lambda p: p**2).pvalue > 1e-6
    assert kstest(found[1], "uniform").pvalue < 1e-6


def test_sums_of_outer_products_of_gradients(rng):
    X = rng.normal(size=(30, 2))
    target = amc.SoftmaxRegression(X, np.arange(30) % 3)
    theta = 0.3 * rng.normal(size=6)
    one_by_one = np.array([expansion_of(target.some_rows(np.array([i])), 1).at(theta).gradient for i in range(30)])
    assert np.allclose(updating._outer(target, theta), one_by_one.T @ one_by_one, rtol=1e-10)
