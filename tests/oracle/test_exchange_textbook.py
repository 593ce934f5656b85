"""The noisy family equals a textbook implementation in NumPy, draw for draw; each planted bug makes it differ."""

import functools
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.proposals import adaptive_direction
from approxmcmc.proposals.random_walk import propose_independent
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    estimate_from_draws,
    log_normalizer_ratio,
    log_ratio_of_observed,
    make_draw_rows,
    make_estimate_from_fresh_draws,
)
from approxmcmc.samplers.auxiliary_variable.langevin import (
    carry_drift_draws,
    make_drift_and_return,
    mean_after_drift,
    posterior_gradient,
    prior_gradient,
)
from approxmcmc.samplers.auxiliary_variable.pseudo_marginal import (
    carry_estimate,
    difference,
    make_estimate_against_kept,
)
from approxmcmc.samplers.auxiliary_variable.step import list_for_audit, make_follow_proposal
from approxmcmc.sampling.chain import is_chosen_for_audit
from approxmcmc.targets.estimated import compile_estimate
from tests import intractable
from tests.edited_source import edited
from tests.intractable import five_values
from tests.planting import plain, plant

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


def estimate_ratio(rng, theta, proposed, data):
    """Return a log-normal estimate of the ratio of likelihoods, unbiased."""
    ratio = 0.5 * (theta[0] - data[0][0]) ** 2 - 0.5 * (proposed[0] - data[0][0]) ** 2
    return ratio + 0.8 * rng.standard_normal() - 0.32


def kept_estimates(own, memory, theta, proposed):
    memory["proposed"] = estimate(own.order, [proposed], ([1.0],))
    return memory["proposed"] - memory["kept"]


def both_estimates(own, memory, theta, proposed):
    here = estimate(own.order, [theta], ([1.0],))
    return estimate(own.order, [proposed], ([1.0],)) - here


def estimated_ratio(own, memory, theta, proposed):
    return estimate_ratio(own.order, [theta], [proposed], ([1.0],))


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
def estimated(kind, estimator):
    return kind(
        estimator, lambda theta: -0.125 * theta[0] ** 2, dim=1, data=np.array([1.0]),
        log_likelihood=lambda theta: -0.5 * (theta[0] - 1.0) ** 2,
    )  # fmt: skip


def target_of(sampler):
    """Return the target that a sampler needs, and its log-likelihood."""
    if isinstance(sampler, amc.samplers.PseudoMarginal):
        return estimated(amc.targets.EstimatedLikelihood, estimate), NORMAL
    if isinstance(sampler, amc.samplers.NoisyMetropolisHastings):
        return estimated(amc.targets.EstimatedRatio, estimate_ratio), NORMAL
    return five_values(), log_likelihood


def carry(memory):
    memory["here"] = memory["there"]


def carry_kept(memory):
    memory["kept"] = memory["proposed"]


WALK = amc.RandomWalk(SCALE)
POPULATION = amc.proposals.AdaptiveDirection(gamma=0.5, scale=0.3, n_members=4, spread=0.5)
NORMAL = lambda theta: -0.5 * (theta - 1.0) ** 2  # noqa: E731
CASES = {
    "exchange": (amc.Exchange(WALK), random_walk, fresh_ratio, None),
    "noisy exchange": (amc.Exchange(WALK, 3), random_walk, functools.partial(fresh_ratio, n=3), None),
    "population": (amc.Exchange(POPULATION), population, fresh_ratio, None),
    "Langevin": (amc.samplers.NoisyLangevin(STEP_SIZE, 3), langevin, None, None),
    "MALA-exchange": (amc.samplers.MALAExchange(STEP_SIZE, False, 3), there_and_back, fresh_ratio, carry),
    "refreshed": (
        amc.samplers.MALAExchange(STEP_SIZE, False, 3, refresh=True),
        functools.partial(there_and_back, refresh=True), fresh_ratio, None,
    ),
    "noisy MALA": (amc.samplers.MALAExchange(STEP_SIZE, True, 3), there_and_back, reused_ratio, carry),
    "GIMH": (amc.samplers.PseudoMarginal(WALK), random_walk, kept_estimates, carry_kept),
    "MCWM": (amc.samplers.PseudoMarginal(WALK, refresh=True), random_walk, both_estimates, None),
    "noisy ratio": (amc.samplers.NoisyMetropolisHastings(WALK), random_walk, estimated_ratio, None),
}  # fmt: skip


def differs(case):
    sampler, move, ratio, keep = CASES[case]
    target, exact = target_of(sampler)
    trace = amc.sample(
        target, sampler, draws=STEPS, tune=0, chains=1, random_seed=SEED, initvals=np.array([START]),
        audit_every=AUDIT_EVERY, progressbar=False,
    )  # fmt: skip
    draws, audits, wrong = textbook(move, ratio, exact, keep)
    stats = trace.sample_stats
    found = [int(stats[name].sum()) if name in stats else 0 for name in ("decisions_audited", "wrong_decisions")]
    [values] = trace.posterior["theta"].values
    return not (np.allclose(values.ravel(), draws, rtol=0.0, atol=1e-9) and found == [audits, wrong])


RECOMPILED = ("noisy exchange", "refreshed", "noisy MALA")  # settings of samplers whose other cases are compiled
MARKS = dict.fromkeys(RECOMPILED, pytest.mark.recompiles) | {"exchange": pytest.mark.core}


@pytest.mark.parametrize("case", [pytest.param(case, marks=MARKS.get(case, ())) for case in CASES])
def test_chains_equal_the_textbook(case):
    assert not differs(case)


def test_the_cases_move_and_their_audits_find_flips():
    for case in ("exchange", "GIMH"):
        draws, audits, wrong = textbook(*CASES[case][1:3], NORMAL if case == "GIMH" else log_likelihood, CASES[case][3])
        assert 10 < len(np.unique(draws)) < STEPS and audits > 10 and wrong > 0


# --- planted bugs ---

from_fresh_draws = make_estimate_from_fresh_draws(intractable.by_inversion)
there_and_back_kernel = make_drift_and_return(intractable.by_inversion, False)
against_kept = make_estimate_against_kept(compile_estimate(estimate))


def negated(function):
    return lambda *arguments: -plain(function)(*arguments)


def draw_at_theta(rng, state, theta, proposed, count):
    plain(make_draw_rows(intractable.by_inversion))(rng, theta, state.simulator, state.drawn, count)
    return plain(estimate_from_draws)(rng, state, theta, proposed, count)


def sum_of_ratios(theta, proposed, statistics):
    return plain(log_normalizer_ratio)(theta, proposed, statistics) + math.log(len(statistics))


def take_off_the_prior_ratio(streams, proposal, theta, proposed, count):
    plain(propose_independent)(streams.proposal, proposal, theta, proposed, count)
    return log_prior(theta[0]) - log_prior(proposed[0])


def audit_by_the_uniforms(streams, clock):
    return clock.audit_probability > 0.0 and streams.uniform.random() < clock.audit_probability


def list_as_accepted(state, decision, threshold, log_rest):
    plain(list_for_audit)(state, 1, threshold, log_rest)


def carry_nothing(state):
    pass


def mean_by_the_draws_at_theta(state, theta, statistics, factor, out):
    plain(mean_after_drift)(state, theta, state.here, factor, out)


def gradient_downhill(log_prior, theta, observed, statistics, shifted, out):
    plain(posterior_gradient)(log_prior, theta, -observed, -statistics, shifted, out)


def no_prior_gradient(log_prior, theta, shifted, out):
    out[:] = 0.0


def keep_what_was_rejected(rng, state, theta, proposed, count):
    log_ratio = plain(against_kept)(rng, state, theta, proposed, count)
    state.here[0] = state.there[0]
    return log_ratio


def put_no_member_back(rng, state, theta, out, count):
    if state.turn[0] != adaptive_direction.NOBODY:
        theta[:] = state.members[state.turn[0]]
    return plain(adaptive_direction.propose)(rng, state, theta, out, count)


own_partner = edited(adaptive_direction.propose, "first += 1 if first >= current else 0", "pass")
BUGS = {
    "s(y) + s(y')": ({log_normalizer_ratio: negated(log_normalizer_ratio)}, "exchange"),
    "auxiliary data at theta": ({from_fresh_draws: draw_at_theta}, "exchange"),
    "ratio inverted": ({log_ratio_of_observed: negated(log_ratio_of_observed)}, "exchange"),
    "sum in place of mean": ({log_normalizer_ratio: sum_of_ratios}, "noisy exchange"),
    "prior ratio forgotten": ({make_follow_proposal(propose_independent): take_off_the_prior_ratio}, "exchange"),
    "audit moves the chain": ({is_chosen_for_audit: audit_by_the_uniforms}, "exchange"),
    "audit without the decision": ({list_for_audit: list_as_accepted}, "exchange"),
    "G not carried": ({carry_drift_draws: carry_nothing}, "MALA-exchange"),
    "way back and forth exchanged": ({there_and_back_kernel: negated(there_and_back_kernel)}, "MALA-exchange"),
    "way back with the draws at theta": ({mean_after_drift: mean_by_the_draws_at_theta}, "noisy MALA"),
    "drift downhill": ({posterior_gradient: gradient_downhill}, "Langevin"),
    "drift without the prior": ({prior_gradient: no_prior_gradient}, "Langevin"),
    "estimate not kept": ({carry_estimate: carry_nothing}, "GIMH"),
    "estimate of a rejected state kept": ({against_kept: keep_what_was_rejected}, "GIMH"),
    "estimates the wrong way round": ({difference: negated(difference)}, "MCWM"),
    "member not put back": ({adaptive_direction.propose: put_no_member_back}, "population"),
    "a member is its own partner": ({adaptive_direction.propose: own_partner}, "population"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_plain_python_equals_the_textbook(case, monkeypatch):
    """The bugs below are the only difference."""
    plant(monkeypatch, {})
    assert not differs(case)


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug, monkeypatch):
    wrong, case = BUGS[bug]
    plant(monkeypatch, wrong)
    assert differs(case)
