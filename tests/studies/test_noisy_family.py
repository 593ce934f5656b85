"""The study of the noisy family: its estimates, enumerated, and its page."""

import dataclasses
import math
import types

import numpy as np
import pytest

from approxmcmc.study import Budget
from approxmcmc.study.report import write_report
from studies import noisy_family
from studies.noisy_family import ANCHOR, law_of_s, log_likelihood_estimate, log_normalizer, log_ratio_estimate
from tests.planting import plain
from tests.studies.toys import quiet_probe

OBSERVED = 12.0
DATA = (*law_of_s(), np.array([OBSERVED, ANCHOR, 1.0]))


def law(theta):
    values, log_counts = law_of_s()
    return np.exp(log_counts + theta * values - log_normalizer(np.array(theta)))


def scripted(monkeypatch, estimate, *points, u=0.0):
    """Return what one auxiliary draw makes of an estimate, for every value of s; `u` is the uniform number."""
    found, rng = [], types.SimpleNamespace(random=lambda: u)
    for value in law_of_s()[0]:
        monkeypatch.setattr(noisy_family, "draw", lambda rng, values, cumulated, value=value: value)
        found.append(estimate(rng, *(np.array([point]) for point in points), DATA))
    return np.array(found)


@pytest.mark.parametrize("theta", [-0.3, 0.1, 0.7])
def test_the_estimated_likelihood_is_unbiased(monkeypatch, theta):
    estimates = np.exp(scripted(monkeypatch, log_likelihood_estimate, theta))
    true = math.exp(theta * OBSERVED + log_normalizer(np.array(ANCHOR)) - log_normalizer(np.array(theta)))
    assert law(theta) @ estimates == pytest.approx(true, rel=1e-12)
    spread = math.sqrt(law(theta) @ estimates**2 - true**2) / true
    square = log_normalizer(2.0 * ANCHOR - theta) + log_normalizer(theta) - 2.0 * log_normalizer(ANCHOR)
    assert spread == pytest.approx(math.sqrt(math.expm1(square)), rel=1e-9)  # what the page says of it


def test_path_sampling_is_unbiased_for_the_log_ratio_and_not_for_the_ratio(monkeypatch):
    here, there = 0.1, 0.6
    nodes, weights = np.polynomial.legendre.leggauss(20)
    mean = mean_ratio = 0.0
    for u, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        estimates = scripted(monkeypatch, log_ratio_estimate, here, there, u=u)
        mean += weight * law(here + u * (there - here)) @ estimates
        mean_ratio += weight * law(here + u * (there - here)) @ np.exp(estimates)
    true = (there - here) * OBSERVED - (log_normalizer(np.array(there)) - log_normalizer(np.array(here)))
    assert mean == pytest.approx(true, rel=1e-9)
    assert mean_ratio > 2.0 * math.exp(true)


def test_draws_are_by_inversion():
    values, log_counts = law_of_s()
    cumulated = np.empty(len(values))
    plain(noisy_family.cumulate)(0.3, values, log_counts, cumulated)
    np.testing.assert_allclose(cumulated / cumulated[-1], np.cumsum(law(0.3)), rtol=1e-12)
    middles = (cumulated - 0.5 * np.diff(cumulated, prepend=0.0)) / cumulated[-1]
    drawn = [plain(noisy_family.draw)(types.SimpleNamespace(random=lambda u=u: u), values, cumulated) for u in middles]
    assert drawn == values.tolist()


def test_the_exact_posterior_is_that_of_the_lattice():
    target, (grid, mass) = noisy_family.lattice(), noisy_family.exact()
    density = np.exp(target.log_densities(grid[:, None]))
    np.testing.assert_allclose(mass, density / density.sum(), rtol=1e-9)


@pytest.mark.recompiles
def test_the_page_has_every_sampler(tmp_path):
    small = {"smoke": {"budget": Budget(draws=40), "tune": 0, "replicates": 1}}
    study = dataclasses.replace(noisy_family.study, presets=small)
    results = study.run("smoke", tmp_path, probe=quiet_probe)
    assert (results.records["status"] == "done").all()
    _, table = noisy_family.against_the_posterior(results)
    assert len(table.data) == 13 and table.data["acceptance"].between(0.0, 1.0).all()
    assert "pseudo_likelihood" in write_report(results, tmp_path / "report").read_text(encoding="utf-8")
