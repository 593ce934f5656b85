"""The noisy family equals a textbook implementation in NumPy, draw for draw; each planted bug makes it differ."""

import functools
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.compile import _bind, compiled
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.proposals import adaptive_direction
from approxmcmc.samplers.noisy import chain as noisy_chain
from approxmcmc.samplers.noisy import (
    doubly_intractable,
    estimated_drift,
    exchange,
    mala_exchange,
    noisy_langevin,
    pseudo_marginal,
)
from tests.intractable import five_values
from tests.oracle.test_textbook import plant

STEPS, SEED, START, AUDIT_EVERY = 60, 20160107, 0.4, 3
SCALE, STEP_SIZE = 0.9, 0.8


# --- the textbook ---


def by_inversion(rng, theta):
    """Draw y of {0, ..., 4} with probability proportional to exp(theta y)."""
    values = five_values().values
    weights = np.exp(theta * values)
    return values[min(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"), 4)]


def log_prior(theta):
    return -0.125 * theta**2


def log_likelihood(theta):
    return 3.0 * theta - math.log(np.exp(theta * np.arange(5)).sum())


def drift(theta, drawn):
    return theta + 0.5 * STEP_SIZE * (-0.25 * theta + 3.0 - np.mean(drawn))


def log_normal(x, mean):
    return -0.5 * (x - mean) ** 2 / STEP_SIZE


def random_walk(own, memory, theta):
    return theta, theta + SCALE * own.proposal.standard_normal(), 0.0


def population(own, memory, theta):
    rng = own.proposal
    if "members" not in memory:
        memory["members"] = [theta] + [theta + 0.5 * (2.0 * rng.random() - 1.0) for _ in range(3)]
        memory["turn"] = 0
    else:
        memory["members"][memory["turn"]] = theta
        memory["turn"] = (memory["turn"] + 1) % 4
    members, turn = memory["members"], memory["turn"]
    others = [h for h in range(4) if h != turn]
    first = others[int(rng.random() * 3)]
    second = [h for h in others if h != first][int(rng.random() * 2)]
    step = 0.5 * (members[first] - members[second]) + 0.3 * rng.standard_normal()
    return members[turn], members[turn] + step, 0.0


def langevin(own, memory, theta, n=3):
    drawn = [by_inversion(own.order, theta) for _ in range(n)]
    return theta, drift(theta, drawn) + math.sqrt(STEP_SIZE) * own.proposal.standard_normal(), 0.0


def there_and_back(own, memory, theta, refresh=False, n=3):
    if refresh or "here" not in memory:
        memory["here"] = [by_inversion(own.order, theta) for _ in range(n)]
    proposed = drift(theta, memory["here"]) + math.sqrt(STEP_SIZE) * own.proposal.standard_normal()
    memory["there"] = [by_inversion(own.order, proposed) for _ in range(n)]
    forward, backward = (
        log_normal(proposed, drift(theta, memory["here"])),
        log_normal(theta, drift(proposed, memory["there"])),
    )
    return theta, proposed, backward - forward


def fresh_ratio(own, memory, theta, proposed, n=1):
    drawn = np.array([by_inversion(own.order, proposed) for _ in range(n)])
    return (proposed - theta) * 3.0 + math.log(np.mean(np.exp((theta - proposed) * drawn)))


def reused_ratio(own, memory, theta, proposed):
    return (proposed - theta) * 3.0 + math.log(np.mean(np.exp((theta - proposed) * np.array(memory["there"]))))


def estimate(rng, theta, data):
    """Return the log of a log-normal estimate of exp(-(theta - data)^2 / 2), unbiased."""
    return -0.5 * (theta[0] - data[0][0]) ** 2 + 0.8 * rng.standard_normal() - 0.32


def kept_estimates(own, memory, theta, proposed):
    memory["proposed"] = estimate(own.order, [proposed], ([1.0],))
    return memory["proposed"] - memory["kept"]


def both_estimates(own, memory, theta, proposed):
    here = estimate(own.order, [theta], ([1.0],))
    return estimate(own.order, [proposed], ([1.0],)) - here


def textbook(move, ratio, exact, keep):
    """Return the states after each step, the wrong decisions and the audits."""
    sequences, _ = seed_sequences(SEED, 1)
    own, memory, theta = streams(sequences[0]), {}, START
    if ratio is kept_estimates:
        memory["kept"] = estimate(own.order, [theta], ([1.0],))
    draws, audits, wrong = [], 0, 0
    for _ in range(STEPS):
        theta, proposed, log_q_ratio = move(own, memory, theta)
        log_u = -own.uniform.standard_exponential()
        accept = True
        if ratio is not None:
            rest = log_prior(proposed) - log_prior(theta) + log_q_ratio
            accept = log_u < rest + ratio(own, memory, theta, proposed)
            if own.audit.random() < 1.0 / AUDIT_EVERY:
                audits += 1
                wrong += accept != (log_u < rest + exact(proposed) - exact(theta))
        if accept:
            theta = proposed
            if keep is not None:
                keep(memory)
        draws.append(theta)
    return np.array(draws), audits, wrong


# --- the library ---


@functools.cache
def estimated():
    return amc.targets.EstimatedLikelihood(
        estimate, lambda theta: -0.125 * theta[0] ** 2, dim=1, data=np.array([1.0]),
        log_likelihood=lambda theta: -0.5 * (theta[0] - 1.0) ** 2,
    )  # fmt: skip


def carry(memory):
    memory["here"] = memory["there"]


def carry_kept(memory):
    memory["kept"] = memory["proposed"]


WALK = amc.RandomWalk(SCALE)
POPULATION = amc.AdaptiveDirection(gamma=0.5, scale=0.3, n_members=4, spread=0.5)
NORMAL = lambda theta: -0.5 * (theta - 1.0) ** 2  # noqa: E731
CASES = {
    "exchange": (amc.Exchange(WALK), random_walk, fresh_ratio, None),
    "noisy exchange": (amc.Exchange(WALK, 3), random_walk, functools.partial(fresh_ratio, n=3), None),
    "population": (amc.Exchange(POPULATION), population, fresh_ratio, None),
    "Langevin": (amc.NoisyLangevin(STEP_SIZE, 3), langevin, None, None),
    "MALA-exchange": (amc.MALAExchange(STEP_SIZE, False, 3), there_and_back, fresh_ratio, carry),
    "refreshed": (
        amc.MALAExchange(STEP_SIZE, False, 3, refresh=True),
        functools.partial(there_and_back, refresh=True), fresh_ratio, None,
    ),
    "noisy MALA": (amc.MALAExchange(STEP_SIZE, True, 3), there_and_back, reused_ratio, carry),
    "GIMH": (amc.PseudoMarginal(WALK), random_walk, kept_estimates, carry_kept),
    "MCWM": (amc.PseudoMarginal(WALK, refresh=True), random_walk, both_estimates, None),
}  # fmt: skip


def differs(case):
    sampler, move, ratio, keep = CASES[case]
    of_estimates = isinstance(sampler, amc.PseudoMarginal)
    target = estimated() if of_estimates else five_values()
    trace = amc.sample(
        target, sampler, draws=STEPS, tune=0, chains=1, random_seed=SEED, initvals=np.array([START]),
        audit_every=AUDIT_EVERY, progressbar=False,
    )  # fmt: skip
    draws, audits, wrong = textbook(move, ratio, NORMAL if of_estimates else log_likelihood, keep)
    stats = trace.sample_stats
    found = [int(stats[name].sum()) if name in stats else 0 for name in ("decisions_audited", "wrong_decisions")]
    [values] = trace.posterior["theta"].values
    return not (np.allclose(values.ravel(), draws, rtol=0.0, atol=1e-9) and found == [audits, wrong])


@pytest.mark.parametrize("case", CASES)
def test_chains_equal_the_textbook(case):
    assert not differs(case)


def test_the_cases_move_and_their_audits_find_flips():
    for case in ("exchange", "GIMH"):
        draws, audits, wrong = textbook(*CASES[case][1:3], NORMAL if case == "GIMH" else log_likelihood, CASES[case][3])
        assert 10 < len(np.unique(draws)) < STEPS and audits > 10 and wrong > 0


BUGS = {
    "s(y) + s(y')": ((exchange, "estimate_from_fresh_draws"), "+ log_normalizer", "- log_normalizer", "exchange"),
    "auxiliary data at theta": (
        (exchange, "estimate_from_fresh_draws"), "SIMULATE(rng, proposed,", "SIMULATE(rng, theta,", "exchange",
    ),
    "ratio inverted": (
        (doubly_intractable, "log_ratio_of_observed"),
        "(proposed[j] - theta[j])", "(theta[j] - proposed[j])", "exchange",
    ),
    "sum in place of mean": (
        (doubly_intractable, "log_normalizer_ratio"), "total / statistics.shape[0]", "total", "noisy exchange",
    ),
    "prior ratio forgotten": (
        (noisy_chain, "advance"), "proposed_log_prior - log_prior(theta) + log_q_ratio", "log_q_ratio", "exchange",
    ),
    "audit moves the chain": ((noisy_chain, "advance"), "audit_rng.random() <", "uniform_rng.random() <", "exchange"),
    "audit without the decision": ((noisy_chain, "advance"), "= draw, decision", "= draw, 1", "exchange"),
    "G not carried": ((mala_exchange, "carry_drift_draws"), "memory[4][:, :] = memory[5]", "pass", "MALA-exchange"),
    "way back and forth exchanged": ((mala_exchange, "drift_and_return"), "return 0.5", "return -0.5", "MALA-exchange"),
    "way back with the draws at theta": (
        (mala_exchange, "drift_and_return"), "proposed, observed, there", "proposed, observed, here", "noisy MALA",
    ),
    "drift downhill": (
        (estimated_drift, "mean_after_drift"), "gradient[j] += observed", "gradient[j] -= observed", "Langevin",
    ),
    "drift without the prior": (
        (estimated_drift, "mean_after_drift"),
        "prior_gradient(log_prior, theta, work[1], gradient)", "gradient[:] = 0.0", "Langevin",
    ),
    "estimate not kept": ((pseudo_marginal, "carry_estimate"), "memory[1][HERE] = memory[1][THERE]", "pass", "GIMH"),
    "estimate of a rejected state kept": (
        (noisy_chain, "advance"), "count[ACCEPTED] = decision", "count[ACCEPTED] = decision; KEEP(memory)", "GIMH",
    ),
    "estimates the wrong way round": ((pseudo_marginal, "difference"), "there - here", "here - there", "MCWM"),
    "member not put back": (
        (adaptive_direction, "_propose"), "members[int(state[0])] = theta", "pass", "population",
    ),
    "a member is its own partner": (
        (adaptive_direction, "_propose"), "first += 1 if first >= current else 0", "pass", "population",
    ),
}  # fmt: skip
USERS = (doubly_intractable, estimated_drift, exchange, mala_exchange, noisy_langevin, pseudo_marginal)


@pytest.fixture
def fresh_kernels():
    _bind.cache_clear()
    noisy_chain.with_part.cache_clear()
    yield
    _bind.cache_clear()
    noisy_chain.with_part.cache_clear()


@pytest.mark.recompiles
@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.usefixtures("fresh_kernels")
def test_planted_bugs_are_seen(bug, monkeypatch):
    (module, name), right, wrong, case = BUGS[bug]
    jitted = hasattr(getattr(module, name), "py_func") or module in (doubly_intractable, estimated_drift)
    plant(monkeypatch, module, name, right, wrong)
    broken = getattr(module, name)
    broken = compiled(broken) if jitted or name == "difference" else broken
    for user in USERS:
        if hasattr(user, name):
            monkeypatch.setattr(user, name, broken)
    assert differs(case)
