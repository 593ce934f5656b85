"""The sampler for a user who named none: measured, not guessed; with a mode, and for a hierarchy that has none."""

import json
import math
import time
from types import SimpleNamespace

import arviz as az
import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.contracts import TermWork, WrittenWork
from approxmcmc.design import branch_and_bound, choose_sampler, lower_bounds, memory, nuts, prices, work
from approxmcmc.design.candidates import TALL
from approxmcmc.design.normal_by_pilot import normal_by_pilot, trajectories
from approxmcmc.design.target_profile import TargetProfile
from approxmcmc.design.trial import Measured

long_pilots = pytest.mark.needs_jit  # hundreds of passes over the data
OURS = [one for one in TALL if not one.is_counted]
GROUPS, N = 3, 60
GROUP = np.arange(N) % GROUPS
Y = 0.1 * GROUP + np.random.default_rng(0).normal(size=N)


def _loglik(theta, data, i):
    group, y = data
    return -0.5 * (y[i] - theta[1 + group[i]]) ** 2


def _logprior(theta):
    """Effects ~ N(0, tau), tau ~ HalfNormal(1), theta_0 = log tau: rises without bound where tau falls to 0."""
    tau = np.exp(theta[0])
    return -0.5 * tau**2 + theta[0] - 3 * theta[0] - 0.5 * np.sum(theta[1:] ** 2) / tau**2


@pytest.fixture(scope="module")
def hierarchy():
    return amc.FunctionTarget(_loglik, _logprior, data=(GROUP, Y), n_obs=N, dim=1 + GROUPS)


def _moments_of_log_tau(y=Y, jacobian=1.0):
    """Return mean and sd of log tau by quadrature; the effects are integrated out in closed form."""
    grid = np.linspace(-12.0, 4.0, 4001)
    tau2 = np.exp(2.0 * grid)
    means = np.array([y[k == GROUP].mean() for k in range(GROUPS)])
    total = tau2 + GROUPS / N
    log_density = -0.5 * tau2 + jacobian * grid
    log_density += np.sum([-0.5 * np.log(total) - 0.5 * mean**2 / total for mean in means], axis=0)
    weight = np.exp(log_density - log_density.max())
    mean = np.average(grid, weights=weight)
    return mean, math.sqrt(np.average((grid - mean) ** 2, weights=weight))


@pytest.fixture(scope="module")
def logistic():
    X, y = amc.datasets.synthetic_logistic(2000, 3)
    return amc.targets.LogisticRegression(X, y)


@pytest.mark.thorough
def test_an_answer_that_is_near_needs_no_rivals(logistic):
    choice = choose_sampler(logistic, random_seed=1)
    table = choice.table.set_index("candidate")
    assert (table["verdict"] == "chosen").sum() == 1 and table["exact"].iloc[0]
    rest = table["verdict"].iloc[1:]
    assert rest.str.startswith("not tried").all() and "reaches the goal in" in rest.iloc[0]
    assert choice.target is logistic and choice.initvals.shape == (4, 3)
    assert json.loads(choice.attrs["choice"])[0]["verdict"] == "chosen"


@pytest.mark.thorough
def test_the_table_tells_what_was_measured(logistic):
    """Prices and efficiencies of what was tried agree."""
    choice = choose_sampler(logistic, target_ess=1e6, random_seed=1)
    tried = choice.table[choice.table["us_per_step"].notna()]
    assert tried["exact"].all()
    per_second = tried["ess_per_step"] / tried["us_per_step"] * 1e6
    np.testing.assert_allclose(tried["ess_per_second"], per_second)
    tuning = tried["price"] - 1e6 / per_second
    steps = tuning / (4.0 * tried["us_per_step"] * 1e-6)
    assert ((steps > 50 - 1e-6) & (steps < 1000 + 1e-6)).all()
    assert (tried["data_per_step"] > 0).all()


@long_pilots
@pytest.mark.parametrize(("allowed", "exact"), [({}, True), ({"max_bias": 0.0}, True), ({"max_bias": 10.0}, False)])
def test_how_much_bias_is_allowed_decides(logistic, monkeypatch, allowed, exact):
    """The candidates that are tried are made equally fast but for the biased one, which is much faster."""
    monkeypatch.setattr(prices, "SOON", 0.0)
    monkeypatch.setattr(branch_and_bound, "SHARE_OF_TRIALS", math.inf)
    monkeypatch.setattr(branch_and_bound, "Trial", FakeTrial)
    choice = choose_sampler(logistic, target_ess=1e6, random_seed=1, **allowed)
    assert choice.table["exact"].iloc[0] == exact
    biased = choice.table[~choice.table["exact"]].iloc[0]
    assert biased["verdict"] == (
        "chosen" if not exact else "not tried: it is biased, and only exact samplers are allowed"
    )
    if exact:
        assert f"; if a small bias is allowed, max_bias=0.02, {biased['candidate']}: at least" in choice.sentence
    else:
        assert "biased, by up to about 0.5 posterior sd" in choice.sentence
        assert "; the best exact one, " in choice.sentence


@long_pilots
def test_a_biased_sampler_must_be_within_the_allowed_error(logistic, monkeypatch):
    monkeypatch.setattr(prices, "SOON", 0.0)
    monkeypatch.setattr(branch_and_bound, "SHARE_OF_TRIALS", math.inf)
    monkeypatch.setattr(branch_and_bound, "Trial", FakeTrial)
    choice = choose_sampler(logistic, target_ess=1e6, max_bias=0.02, random_seed=1)
    assert choice.table["exact"].iloc[0]
    assert "predicted error above the allowed 0.02" in set(choice.table["verdict"])
    assert not choose_sampler(logistic, target_ess=1e6, max_bias=1.0, random_seed=1).table["exact"].iloc[0]


class FakeTrial:
    """A trial that measured: a biased sampler is a hundred times as fast, with an error of .5."""

    compile_seconds, gave_up, counted_seconds, clock_seconds = 0.0, False, 0.0, 0.0

    def __init__(self, setting, draw_start, *, chains, random_seed, price, audits, hopeless):
        self.starts = np.zeros((chains, setting.target.variables.size))

    def measure(self, worth, *, audited):
        seconds, read, error = (1e-6, 1.0, 0.5) if audited else (1e-4, 1e6, 0.0)  # reads are what an exact one takes
        return Measured(seconds, read, 1.0, error, 0.0, self.starts, 1.0, 100.0)


@pytest.mark.thorough
def test_less_time_is_a_price_in_risk(logistic):
    choice = choose_sampler(logistic, time_limit=2.0, random_seed=1)
    assert "risk at 2 s" in choice.sentence
    row = choice.table.iloc[0]
    left = 1.0 / (row["ess_per_second"] * row["price"])  # of the two seconds, once the chains are tuned
    tuning = (2.0 - left) / (4.0 * row["us_per_step"] * 1e-6)
    assert 50 - 1e-3 < tuning < 1000 + 1e-3


@pytest.mark.thorough
def test_two_goals_are_refused_but_a_run_may_have_both(logistic):
    with pytest.raises(amc.errors.InvalidInputError, match="give target_ess=50 or time_limit=60"):
        choose_sampler(logistic, target_ess=50, time_limit=60)
    trace = amc.sample(logistic, target_ess=50, time_limit=60, random_seed=1, progressbar=False)
    assert "seconds to 50 effective draws" in trace["sample_stats"].attrs["chosen"]


def test_steps_that_a_run_makes_anyway_are_in_the_price():
    """4000 steps, whatever they say: a sampler that mixes well in expensive steps is not cheap."""
    goal = prices.checked_goal(None, None, 0.02, 4000)
    assert goal.price(1.0, 0.01, 0.005) == 1.0 + 4000 * 0.005 and goal.price(1.0, 0.1, 0.005) == 1.0 + 400 * 0.1
    assert "in at least 4000 steps" in goal.unit


def test_discrete_states_get_gibbs():
    target = amc.targets.BinaryMRF(2, [[0, 1]], [[[0.0, 1.0], [1.0, 0.0]]])
    choice = choose_sampler(target, random_seed=1)
    assert isinstance(choice.sampler, amc.Gibbs) and choice.table["verdict"].tolist() == ["chosen"]


@pytest.mark.thorough
def test_a_doubly_intractable_posterior_gets_the_exchange_algorithm():
    target = amc.targets.Ising(np.ones((3, 3), dtype=int), prior_scale=1.0)
    choice = choose_sampler(target, random_seed=1)
    assert isinstance(choice.sampler, amc.Exchange) and choice.table["exact"].all()


@long_pilots
@pytest.mark.recompiles
def test_a_hierarchy_without_a_mode_is_measured_by_a_pilot(hierarchy):
    with pytest.raises(amc.errors.InvalidInputError, match="no mode"):
        amc.laplace(hierarchy)
    choice = choose_sampler(hierarchy, random_seed=1)
    assert choice.attrs["setup_mode_passes"] > 1000
    table = choice.table.set_index("candidate")
    assert "no mode of FunctionTarget" in table.loc["influential rows, surrogate transitions, exact test", "verdict"]
    assert "has no gradient" in table.loc["Langevin steps, exact test", "verdict"]


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"max_bias": "some"}, "max_bias must be"),
        ({"max_bias": -1.0}, "max_bias must be"),
        ({"target_ess": 0.0}, "target_ess must be"),
        ({"time_limit": -1.0}, "time_limit must be"),
    ],
)
def test_what_cannot_be_wanted_is_refused(logistic, bad, match):
    with pytest.raises(amc.errors.InvalidInputError, match=match):
        choose_sampler(logistic, **bad)


@pytest.mark.thorough
def test_the_pilot_measures_mean_and_scale(hierarchy):
    fit = normal_by_pilot(hierarchy, random_seed=1)
    mean, sd = _moments_of_log_tau()
    assert abs(fit.mode[0] - mean) < sd
    assert 0.5 < fit.sd[0] / sd < 2.0  # what a proposal requires of a scale


def _grad_loglik(theta, data, i, out):
    group, y = data
    out[1 + group[i]] += y[i] - theta[1 + group[i]]


def _grad_logprior(theta, out):
    tau2 = np.exp(2.0 * theta[0])
    out[0] += -tau2 - 2.0 + np.sum(theta[1:] ** 2) / tau2
    out[1:] -= theta[1:] / tau2


@pytest.mark.statistical
def test_trajectories_in_the_metric_of_a_pilot_have_the_law_of_a_hierarchy():
    """Within 5 Monte Carlo errors of quadrature; without the Jacobian of log tau it would be 10 off."""
    y = Y + GROUP  # whose groups differ, so that tau has no funnel to go down
    target = amc.FunctionTarget(
        _loglik, _logprior, data=(GROUP, y), n_obs=N, dim=1 + GROUPS, grad_loglik=_grad_loglik,
        grad_logprior=_grad_logprior,
    )  # fmt: skip
    fit = normal_by_pilot(target, random_seed=1)
    sampler = amc.MetropolisHastings(trajectories(fit), amc.ExactTest())
    trace = amc.sample(target, sampler, draws=5000, tune=200, initvals=fit, random_seed=1, progressbar=False)
    log_tau = trace.posterior["theta"].values[..., 0]
    (mean, sd), (wrong, _) = _moments_of_log_tau(y), _moments_of_log_tau(y, jacobian=0.0)
    for power, expected in ((1, mean), (2, sd**2 + mean**2)):
        assert abs((log_tau**power).mean() - expected) < 5.0 * float(az.mcse(log_tau**power))
    assert abs(mean - wrong) > 10.0 * float(az.mcse(log_tau))


def _known(dim=16, n_obs=1000, target=None, **made):
    """Return a situation in which a term takes a microsecond, and its gradient three."""
    target = target or SimpleNamespace(
        variables=SimpleNamespace(size=dim),
        n_obs=n_obs,
        normal_prior=(),
        compile=lambda: SimpleNamespace(data=()),
        reads_rows=True,
        known_fit=None,
        compiles_prior=False,
        mirrored=(),
        term_work=TermWork(1e-6 / 0.15e-9, 3e-6 / 0.15e-9, 0.0),
    )
    return TargetProfile(target, _found=dict(made))


LAW = amc.numerics.Laplace(np.zeros(16), np.eye(16))


def _named(name):
    [one] = [one for one in TALL if one.name == name]
    return one


def test_what_a_candidate_would_have_to_make_is_in_its_floor_until_it_is_made():
    goal = prices.checked_goal(None, None, 0.02)
    one = _named("Hamiltonian trajectories, exact test")
    (before, afraid), (after, _) = (
        branch_and_bound.lower_bound_of(one, known, goal) for known in (_known(), _known(pilot=LAW))
    )
    pilot = 750 * 8 * (3e-3 + 2 * 0.4e-9 * 16**2)
    assert before - after == pytest.approx(pilot) and not afraid  # nothing but passes, which are foretold
    langevin = _named("Langevin steps, exact test")
    with_mode, without = (
        branch_and_bound.lower_bound_of(langevin, _known(**made), goal)[0] for made in ({"mode": LAW}, {})
    )
    assert without - with_mode == pytest.approx((40 + 4 * 34) * 3e-3, rel=1e-3)  # a climb, and four Newton steps


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Hamiltonian trajectories, exact test", ("terms", "gradient", "trajectory")),
        ("independent draws and a walk, exact test", ("terms", "gradient")),
        ("NUTS by nutpie", ()),
    ],
)
def test_code_is_paid_for_once_and_with_it_a_prior_of_pytensor(name, parts):
    """The law that a candidate needs and its own steps share parts: none of them is counted twice."""
    goal, one = prices.checked_goal(None, None, 0.02), _named(name)
    lower_bounds = []
    for code, prior, compiled in (
        ("library", False, ()),
        ("graph", False, ()),
        ("graph", True, ()),
        ("graph", True, parts),
    ):
        known = _known()
        known.target.written_work = WrittenWork(1e4, 16, False, 1.0)
        known.target.term_work = TermWork(1.0, 1.0, 0.0, code)
        known.target.compiles_prior = prior
        known.compiled.update(compiled)
        lower_bounds.append(branch_and_bound.lower_bound_of(one, known, goal)[0])
    plain, terms, both, made = lower_bounds
    assert terms - plain == pytest.approx(sum(work.COMPILATION["graph"][part] for part in parts), abs=1e-3)
    assert both - terms == pytest.approx(sum(work.PRIOR[part] for part in parts))
    assert made == pytest.approx(plain, abs=1e-3)


def test_a_biased_sampler_pays_for_its_audits():
    goal = prices.checked_goal(None, None, 0.02)
    *_, exact, biased = OURS
    known = _known(**{"mode": LAW, "influential rows": None})
    assert branch_and_bound.audits_of(exact, known) == 0.0
    assert branch_and_bound.audits_of(biased, known) == pytest.approx(
        50 * (2 * known.pass_seconds + 35e-9 * known.target.n_obs)
    )
    assert branch_and_bound.lower_bound_of(biased, known, goal)[0] > branch_and_bound.audits_of(biased, known)


def test_a_failed_search_for_a_mode_is_not_repeated_and_leaves_the_pilot():
    known = _known(mode=amc.errors.InvalidInputError("no mode here"), pilot=LAW)
    assert known.fit is LAW and _named("random walk, exact test").why_not(known) == ""
    assert _named("independent draws and a walk, exact test").why_not(known) == "no mode here"
    with pytest.raises(amc.errors.InvalidInputError, match="no mode here"):
        _ = known.mode


def test_a_walk_whose_search_for_the_mode_fails_takes_the_pilot(monkeypatch):
    def fail(target):
        raise amc.errors.InvalidInputError("no mode here")

    monkeypatch.setattr("approxmcmc.design.target_profile.laplace", fail)
    known = _known(pilot=LAW)
    assert known.why_no_expansion == "" and known.fit is LAW and known.why_no_expansion == "no mode here"


@pytest.mark.parametrize(("mode", "fits"), [(0.0, True), (0.5, True), (3.0, False), (-3.0, False), (9.0, True)])
def test_draws_around_a_mode_are_not_chosen_where_chains_reach_its_mirror_image(mode, fits):
    independent = _named("independent draws and a walk, exact test")
    law = amc.numerics.Laplace(np.array([1.0, mode]), np.eye(2))
    known = _known(mode=law)
    assert independent.why_not(known) == ""  # neither coordinate is a scale of either sign
    known.target.mirrored = [1]
    assert (independent.why_not(known) == "") is fits
    vars(known)["_found"].clear()
    assert independent.why_not(known) == ""  # before the mode is known


def test_where_rows_are_few_for_a_hierarchy_no_mode_is_sought():
    """d^2 = 256 of 200 rows, and a prior that is not normal: a pilot has the metric."""
    known = _known(n_obs=200, pilot=LAW)
    assert known.why_no_mode == ""  # a regression with normal priors
    known.target.normal_prior = None
    known = _known(target=known.target, pilot=LAW)
    assert "200 terms are too few for a normal approximation of 16 parameters" in known.why_no_mode and known.fit is LAW
    assert _named("influential rows, surrogate transitions, exact test").why_not(known) == known.why_no_mode
    known.target.n_obs = 256
    assert _known(target=known.target).why_no_mode == ""


def test_memory_is_counted_as_time_is(monkeypatch):
    monkeypatch.setattr(memory, "all_memory", lambda: 16e9)
    known = _known(dim=30_000)
    verdicts = [one.why_not(known) for one in OURS]
    assert verdicts[0] == "it would take 86 GB of memory, and may take 4" and all("GB of memory" in v for v in verdicts)
    assert {one.why_not(_known()) for one in OURS} == {""}
    monkeypatch.setattr(memory, "all_memory", lambda: 1e5)
    assert "GB of memory" in _named("random walk, exact test").why_not(_known(dim=100))


@long_pilots
@pytest.mark.parametrize(
    "error", [MemoryError("of 8 GB"), np.linalg.LinAlgError("singular"), FloatingPointError("NaN")]
)
def test_a_candidate_whose_set_up_fails_is_left_for_the_next(logistic, monkeypatch, error):
    def fail(*arguments, **settings):
        raise error

    monkeypatch.setattr("approxmcmc.design.target_profile.laplace", fail)
    choice = choose_sampler(logistic, random_seed=1)
    table = choice.table.set_index("candidate")
    assert str(error) in table.loc["independent draws and a walk, exact test", "verdict"]
    assert choice.table["exact"].iloc[0] and choice.attrs["setup_mode_passes"] > 1000  # of a pilot


def test_the_floor_of_an_expansion_counts_what_its_differences_take(logistic):
    assert TargetProfile(logistic).expansion_seconds == pytest.approx(10 * TargetProfile(logistic).pass_seconds)

    def loglik(theta, data, i):
        return -0.5 * (data[0][i] - theta[0] - theta[1]) ** 2

    def grad_loglik(theta, data, i, out):
        out[:] += data[0][i] - theta[0] - theta[1]

    given = {"data": (Y,), "n_obs": N, "dim": 2}
    without = TargetProfile(amc.FunctionTarget(loglik, lambda theta: 0.0, **given))
    known = TargetProfile(amc.FunctionTarget(loglik, lambda theta: 0.0, grad_loglik=grad_loglik, **given))
    assert not without.has_gradient and known.has_gradient
    assert without.expansion_seconds > 4 * without.pass_seconds  # dim^2, and the pilot's chain
    assert known.expansion_seconds > 4 * known.gradient_seconds


@long_pilots
def test_choice_and_draws_follow_from_the_seed_and_not_from_a_clock(logistic, monkeypatch):
    """A clock that runs a thousand times too fast or too slow, at random, moves no price and no draw."""
    settings = {"random_seed": 3, "chains": 2, "progressbar": False}
    traces, tables = [], []
    for seed in (1, 2):
        rng, now = np.random.default_rng(seed), [0.0]

        def clock(rng=rng, now=now):
            now[0] += 10.0 ** rng.uniform(-6.0, 0.0)
            return now[0]

        with monkeypatch.context() as patch:
            for name in ("perf_counter", "thread_time", "process_time"):
                patch.setattr(time, name, clock)
            tables.append(choose_sampler(logistic, target_ess=1e5, random_seed=3).table)
            traces.append(amc.sample(logistic, **settings))
    timed = [name for name in tables[0] if name.endswith("_seconds") or name.startswith("measured")]
    pd.testing.assert_frame_equal(*(table.drop(columns=timed) for table in tables), check_exact=True)
    np.testing.assert_array_equal(*(trace["posterior"]["beta"].values for trace in traces))
    assert len({trace["posterior"].attrs["chosen"] for trace in traces}) == 1


@pytest.mark.thorough
def test_separable_classes_under_a_flat_prior_are_called_improper():
    X = np.random.default_rng(0).normal(size=(200, 2))
    target = amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(int), prior_scale=math.inf)
    with pytest.warns(amc.errors.SamplingWarning, match=r"beta\[x.\] still grew .* may be improper"):
        normal_by_pilot(target, random_seed=1)


@pytest.mark.thorough
def test_an_improper_posterior_is_told_of_whoever_samples_it():
    X = np.random.default_rng(0).normal(size=(200, 2))
    target = amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(int), prior_scale=math.inf)
    with pytest.warns(amc.errors.SamplingWarning, match="choose_sampler: .* may be improper"):
        choice = choose_sampler(target, random_seed=1)
    assert "NUTS" in choice.table["candidate"].iloc[0]  # ours are out: no mode, no pilot


@long_pilots
@pytest.mark.recompiles
def test_a_density_that_is_nan_somewhere_is_left_to_samplers_that_read_all_data():
    """Influential rows do not notice, since a NaN of the surrogate is a rejection there: they would be taken."""

    def loglik(theta, data, i):
        return np.nan if theta[0] > 1.0 else -0.5 * (data[0][i] - theta[0]) ** 2

    y = 0.9 + np.random.default_rng(0).normal(size=200)
    target = amc.FunctionTarget(loglik, lambda theta: -0.5 * theta[0] ** 2, data=y, n_obs=200, dim=1)
    with pytest.raises(amc.errors.IncompatibleError, match=r"is NaN or \+inf at theta.*would not detect"):
        choose_sampler(target, random_seed=1)


def test_steps_without_a_set_up_are_tried_though_the_share_is_spent():
    """Otherwise influential rows of a hierarchy, expensive and useless, would prevent the trial of Langevin steps."""
    goal = prices.checked_goal(None, None, 0.02)
    independent, langevin, _, _, influential_rows, _ = OURS
    found = Measured(0.01, 100.0, 0.1, 0.0, 0.0, np.zeros((1, 1)), 10.0, 100.0)  # 40 s to 400 draws, a share of 6 s
    best = prices.CandidateState(independent, 0.01, has_set_up=False, price=40.0, measured=found)
    plain, made = (
        prices.CandidateState(one, 0.01, has_set_up=one is influential_rows) for one in (langevin, influential_rows)
    )
    assert branch_and_bound.why_not_tried(made, best, goal, 5.0) == ""
    assert "share of the budget" in branch_and_bound.why_not_tried(made, best, goal, 7.0)
    assert branch_and_bound.why_not_tried(plain, best, goal, 7.0) == ""
    slow = prices.CandidateState(langevin, 41.0, has_set_up=False)
    assert "cannot cost less" in branch_and_bound.why_not_tried(slow, best, goal, 7.0)


def test_influential_rows_that_are_made_serve_the_next_test_for_nothing():
    known = _known(mode=LAW)
    vars(known)["expansion_seconds"] = 10.0
    goal = prices.checked_goal(None, None, 0.02)
    (*_, biased) = OURS
    before, afraid = branch_and_bound.lower_bound_of(biased, known, goal)
    made = _known(**{"mode": LAW, "influential rows": None})
    after, still = branch_and_bound.lower_bound_of(biased, made, goal)
    assert before - after == pytest.approx(10.0) and afraid and not still


def test_an_exact_test_without_bounds_of_terms_reads_all_rows_of_a_step(logistic):
    *_, exact, biased = OURS
    bounded, unbounded = TargetProfile(logistic), _known()
    assert exact.lower_bound(bounded).per_draw == biased.lower_bound(bounded).per_draw
    assert exact.lower_bound(unbounded).per_draw > unbounded.pass_seconds > biased.lower_bound(unbounded).per_draw


def test_a_trial_that_was_cut_short_goes_on_where_its_candidate_may_be_the_best(logistic, monkeypatch):
    """Only where the price is within a factor of 4 of the best; without a rival's hope it is not cut short again."""
    goal = prices.checked_goal(None, 1e6, 0.02)

    class Told:
        counted_seconds, clock_seconds = 0.0, 0.0

        def __init__(self, seconds):
            self.seconds, self.worths = seconds, []

        def measure(self, worth, *, audited):
            self.worths.append(worth(self.seconds))
            return Measured(self.seconds, 1.0, 1.0, 0.0, 0.0, np.zeros((1, 1)), 1.0, effective)

    effective = 20.0
    states = [prices.CandidateState(one, 0.01, has_set_up=False) for one in TALL[:3]]
    trials = [Told(seconds) for seconds in (1e-4, 1.5e-4, 1e-2)]
    for state, trial in zip(states, trials, strict=True):
        branch_and_bound.measure(state, trial, _known(), goal, None, rival_price=1.0)
    assert [state for state, _ in branch_and_bound.contenders(states, goal)] == states[:2]
    for state, trial in branch_and_bound.contenders(states, goal):
        branch_and_bound.measure(state, trial, _known(), goal, states[0], rival_price=math.inf)
    assert not branch_and_bound.contenders(states, goal)
    assert [trial.worths for trial in trials] == [[0.25, pytest.approx(5.0)]] * 2 + [[0.25]]
    branch_and_bound.measure(
        states[0], trials[0], _known(), prices.checked_goal(2.0, None, 0.02), None, rival_price=1.0
    )
    assert trials[0].worths[-1] == 0.25 and states[0].unfinished is None  # a time limit cuts none
    effective = 100.0
    branch_and_bound.measure(states[0], trials[0], _known(), goal, None, rival_price=1.0)
    assert states[0].unfinished is None  # it has seen enough


def test_a_draw_of_nuts_takes_no_fewer_steps_than_a_trajectory_that_was_tried(logistic):
    known = TargetProfile(logistic)
    counted = nuts.seconds_per_draw(known)
    known.trajectories.append(10.0 * counted)
    assert nuts.seconds_per_draw(known) == 10.0 * counted
    known.trajectories[:] = [0.1 * counted]
    assert nuts.seconds_per_draw(known) == counted


def test_exact_decisions_may_read_few_rows_wherever_residuals_have_bounds(logistic):
    """In several predictors too; a likelihood that is differentiated numerically has no bounds, whatever it says."""

    def log_logit(eta, y):
        return y * eta - np.log1p(np.exp(eta))

    X, y = logistic.X, logistic.y
    without_derivatives = amc.targets.GLMTarget(log_logit, X, y, third_derivative_bound=0.1)
    for target, reads_few in (
        (logistic, True),
        (amc.NegativeBinomialRegression(X, y), True),
        (amc.SoftmaxRegression(X, y), True),
        (without_derivatives, False),
    ):
        profile = TargetProfile(target)
        by_t_test = lower_bounds.of_few_rows(profile)
        exactly = lower_bounds.of_few_rows_exactly(profile)
        assert (exactly == by_t_test) == reads_few
        assert exactly.per_draw >= by_t_test.per_draw


def test_draws_of_nuts_count_less_where_it_moves_effects_that_others_integrate(logistic, monkeypatch):
    known, hierarchy = TargetProfile(logistic), TargetProfile(logistic)
    work = known.written_work
    hierarchy.__dict__["written_work"] = work._replace(dim=work.dim + 100)
    assert nuts.lower_bound(known).per_step == nuts.seconds_per_draw(known)
    assert nuts.lower_bound(hierarchy).per_step == nuts.RUNS_OF_EFFECTS * nuts.seconds_per_draw(hierarchy)
    monkeypatch.setattr(nuts, "FEW_GROUPS", logistic.n_obs + 1)
    assert nuts.lower_bound(hierarchy).per_step == nuts.RUNS_OF_FEW * nuts.seconds_per_draw(hierarchy)
    assert nuts.lower_bound(known).per_step == nuts.seconds_per_draw(known)


def test_nuts_reads_all_rows_whatever_stands_for_them(logistic):
    rows = np.repeat(np.arange(50), 40)
    many = amc.targets.LogisticRegression(np.eye(50)[rows], np.arange(2000) % 2)
    few = amc.targets.compressed(many)
    assert few.n_obs < many.n_obs
    assert nuts.seconds_per_draw(TargetProfile(few)) == nuts.seconds_per_draw(TargetProfile(many))


def test_what_was_counted_is_counted_anew_by_what_a_trial_finds(logistic):
    known, goal = TargetProfile(logistic), prices.checked_goal(None, None, 0.02)
    [one] = [one for one in TALL if one.is_counted]
    state = branch_and_bound.initial_state(one, known, goal)
    branch_and_bound.count(state, known, goal)
    before = state.price
    known.trajectories.append(1.0)  # seconds
    branch_and_bound.reassess(state, known, goal)
    assert state.price > before + 400.0 and state.measured.seconds_per_draw == 1.0


def test_a_trial_that_says_nothing_wins_against_none_that_does():
    goal, states = prices.checked_goal(None, None, 0.02), []
    for one, price, effective in zip(TALL, (1.0, 5.0, 7.0), (4.0, 60.0, 100.0), strict=False):
        found = Measured(1e-6, 5.0, 0.002, 0.0, 0.0, np.zeros((1, 1)), 500.0, effective)
        states.append(prices.CandidateState(one, 0.0, has_set_up=False, price=price, measured=found))
    assert branch_and_bound.best_of(states, goal) is states[1]
    assert branch_and_bound.best_of(states[:1], goal) is states[0]


def test_a_trial_with_few_effective_draws_promises_nothing():
    """Independent draws of a funnel stick, and a short trial that sees it once or twice takes them for fast."""
    goal = prices.checked_goal(None, None, 0.02)
    independent, langevin, *_ = TALL
    other = prices.CandidateState(langevin, 0.01, has_set_up=False)
    for effective, said in (
        (7.0, ""),
        (100.0, "not tried: independent draws and a walk, exact test reaches the goal in 0.1 s"),
    ):
        found = Measured(1e-6, 5.0, 0.002, 0.0, 0.0, np.zeros((1, 1)), 500.0, effective)
        best = prices.CandidateState(independent, 0.001, has_set_up=False, price=0.1, measured=found)
        assert branch_and_bound.why_not_tried(other, best, goal, 0.0) == said
