"""Gibbs: forms, tests and runs that must give equal draws."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms import order as data_order
from tests.unit.targets.test_bayesian_network import weather
from tests.unit.targets.test_mrf import mixed

SEED = 20140621
SEQUENTIAL = amc.Gibbs(amc.SequentialTTest(0.1, 4))


def field():
    return amc.targets.BinaryMRF.random_triples(6, 0.3, 0)


def draws(target, sampler, *, n=60, chains=2, **options):
    options = {"tune": 5, "random_seed": SEED, "progressbar": False} | options
    trace = amc.sample(target, sampler, draws=n, chains=chains, **options)
    return np.concatenate([np.atleast_3d(values.to_numpy()) for values in trace.posterior.values()], axis=2)


OTHERS = {
    "terms": {"conditional": "terms"},
    "epsilon=0": {"test": amc.SequentialTTest(0.0, 4)},
    "batch_size=N": {"test": amc.SequentialTTest(0.2, 10)},
    "epsilon=0, blocks": {"test": amc.SequentialTTest(0.0, 4, order="blocks")},
    "barker, batch_size=N, blocks": {"test": amc.acceptance.MinibatchBarker(batch_size=10, order="blocks")},
    "barker, batch_size=N": {"test": amc.acceptance.MinibatchBarker(batch_size=10)},
    "rule": {"test": amc.ExactTest("barker"), "conditional": "terms"},
}


@pytest.mark.recompiles
@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("other", OTHERS)
def test_forms_and_tests_that_read_everything_agree(other, scan):
    exact, sampler = amc.Gibbs(scan=scan), amc.Gibbs(scan=scan, **OTHERS[other])
    assert np.array_equal(draws(field(), exact), draws(field(), sampler))


@pytest.mark.recompiles
@pytest.mark.parametrize("order", ["rows", "blocks"])
def test_sites_with_different_numbers_of_terms_agree(order, monkeypatch):
    monkeypatch.setattr(data_order, "LEAST_BLOCK", 2)
    monkeypatch.setattr(data_order, "RESHUFFLE_EVERY", 3)
    tested = amc.Gibbs(amc.SequentialTTest(0.0, 2, order=order))
    assert np.array_equal(draws(mixed(), amc.Gibbs()), draws(mixed(), tested))


@pytest.mark.recompiles
def test_two_states_among_several_follow_the_binary_rule():
    # A variable of three states without children makes Gibbs use the form for any number of states.
    binary = amc.targets.alarm_network(M=1)
    tables = {**binary.tables, "spare": [0.2, 0.3, 0.5]}
    several = amc.targets.BayesianNetwork(tables, binary.parents, {"M": 1})
    assert np.array_equal(
        draws(binary, amc.Gibbs(), n=1, tune=0, initvals=np.zeros(4)),
        draws(several, amc.Gibbs(), n=1, tune=0, initvals=np.zeros(5))[..., :4],
    )


@pytest.mark.parametrize(
    "sampler", [amc.Gibbs(), SEQUENTIAL, amc.Gibbs(scan="random")], ids=["exact", "test", "random"]
)
def test_audits_chains_and_threads_leave_the_draws(sampler):
    one = draws(field(), sampler, audit_every=None)
    assert np.array_equal(one, draws(field(), sampler, audit_every=1))
    assert np.array_equal(one, draws(field(), sampler, cores=2))
    assert np.array_equal(one[:1], draws(field(), sampler, chains=1))
    assert not np.array_equal(one, draws(field(), sampler, random_seed=SEED + 1))


@pytest.mark.parametrize("target", [field(), weather()], ids=["fields", "states"])
def test_chunks_leave_the_draws(target, monkeypatch):
    whole = draws(target, amc.Gibbs())
    monkeypatch.setattr("approxmcmc.sampling.recorder.CHUNK_SECONDS", 1e-9)  # one sweep to a chunk
    assert np.array_equal(whole, draws(target, amc.Gibbs()))


def test_thinning_keeps_every_nth_sweep():
    assert np.array_equal(draws(field(), SEQUENTIAL)[:, 2::3], draws(field(), SEQUENTIAL, n=20, thin=3))
