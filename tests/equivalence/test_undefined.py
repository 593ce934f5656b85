"""A proposal with an undefined log density: rejected out of reach of the posterior, the end of the chain within it."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.couplings.kernels import coupling_of
from approxmcmc.errors import NotFiniteError, SamplingWarning

COUNTS = np.arange(60.0) % 3
WALL = 9.0  # the log density there is -60 e^9 = -486 000

TESTS = {
    "exact": amc.ExactTest(),
    "delayed": amc.acceptance.DelayedAcceptance(amc.ExactTest()),
    "sequential": amc.SequentialTTest(0.1, 20, order="rows"),
    "blocks": amc.SequentialTTest(0.1, 20, order="blocks"),
    "annealed": amc.acceptance.AnnealedEpsilon((0.1, 0.0), (30,), amc.SequentialTTest(batch_size=20, order="rows")),
    "barker": amc.acceptance.MinibatchBarker(batch_size=20),
    "bernstein": amc.acceptance.BernsteinTest(0.1, 20, range="observed"),
}


def target(beyond: float, *, slope: float = math.nan, wall: float = WALL, grows: float = 1.0) -> amc.FunctionTarget:
    """Poisson counts with rate exp(theta): log density and slope beyond the wall are as given."""

    def loglik(theta, data, i):
        return beyond if theta[0] > wall else data[0][i] * theta[0] - grows * math.exp(theta[0])

    def grad_loglik(theta, data, i, out):
        out[0] += slope if theta[0] > wall else data[0][i] - grows * math.exp(theta[0])

    def grad_logprior(theta, out):
        out[0] -= theta[0] / 900.0

    return amc.FunctionTarget(
        loglik,
        lambda theta: -0.5 * (theta[0] / 30.0) ** 2,
        data=COUNTS,
        n_obs=60,
        dim=1,
        grad_loglik=grad_loglik,
        grad_logprior=grad_logprior,
    )


def draw(model, test, *, proposal=None, **options):
    sampler = amc.MetropolisHastings(proposal or amc.RandomWalk(5.0), test)
    settings = {"draws": 150, "tune": 10, "chains": 2, "random_seed": 7, "initvals": np.zeros(1), "audit_every": None}
    return amc.sample(model, sampler, progressbar=False, **settings | options)


@pytest.mark.recompiles
@pytest.mark.filterwarnings("ignore:.*problem.* with this run")
@pytest.mark.parametrize(
    ("name", "value"), [*((name, math.nan) for name in TESTS), ("exact", math.inf), ("delayed", math.inf)]
)
def test_out_of_reach_an_undefined_density_is_zero(name, value):
    """Bit by bit the chain of a density that is 0 where the other is undefined: theta, answers, and what tuning did."""
    test = TESTS[name]
    undefined, zero = draw(target(value), test), draw(target(-math.inf), test)
    np.testing.assert_array_equal(undefined.posterior["theta"], zero.posterior["theta"])
    for record in ("accepted", "acceptance_rate", "decisions_made"):
        np.testing.assert_array_equal(undefined.sample_stats[record], zero.sample_stats[record], err_msg=record)
    assert (undefined.sample_stats["out_of_reach"].sum("draw") > 0).all()
    assert int(zero.sample_stats["out_of_reach"].sum()) == 0
    evaluations = "likelihood_evaluations"
    assert (undefined.sample_stats[evaluations].sum() > zero.sample_stats[evaluations].sum()).item()
    alone = draw(target(value), test, chains=1)
    np.testing.assert_array_equal(alone.posterior["theta"][0], undefined.posterior["theta"][0])


@pytest.mark.recompiles
@pytest.mark.parametrize("cause", ["gradient", "both"])
def test_langevin_steps_that_overflow_are_rejected(cause):
    """A slope that is NaN where the density has fallen to nothing, as -inf times 0 in a hierarchy of Poisson counts."""
    langevin = amc.Langevin(40.0)  # from theta = 4 the drift of -3000 ends far below, from below far above
    overflow = target(math.nan if cause == "both" else -math.inf, slope=math.nan)
    zero = target(-math.inf, slope=0.0)
    with pytest.warns(SamplingWarning, match=r"log density was NaN or \+inf at \d+ of 300 proposals"):
        ours = draw(overflow, amc.ExactTest(), proposal=langevin)
    with pytest.warns(SamplingWarning):
        theirs = draw(zero, amc.ExactTest(), proposal=langevin)
    np.testing.assert_array_equal(ours.posterior["theta"], theirs.posterior["theta"])
    assert "out of reach" in ours.posterior.attrs["problems"]
    assert "out of reach" not in theirs.posterior.attrs["problems"]


@pytest.mark.recompiles
@pytest.mark.parametrize(
    ("grows", "wall", "stops"),
    [(1.0, 2.7, True), (1.0, 2.9, False), (0.01, 7.6, True), (0.01, 7.7, False)],
)
def test_the_density_has_to_fall_by_745_nats_before_it_is_undefined(grows, wall, stops):
    """Walls on both sides of the limit, on a Poisson's rise to the wall and on a slower one."""
    fall = 60 * (-grows - (wall - grows * math.exp(wall))) + wall**2 / 1800.0
    assert (fall < 745.0) == stops
    model = target(math.nan, wall=wall, grows=grows)
    arguments = {"proposal": amc.RandomWalk(1e3), "draws": 40, "initvals": np.zeros(1)}
    if stops:
        with pytest.raises(NotFiniteError, match=r"datum 0 and 59 more is NaN or \+inf at theta = \["):
            draw(model, amc.ExactTest(), **arguments)
    else:
        with pytest.warns(SamplingWarning, match="out of reach"):
            trace = draw(model, amc.ExactTest(), **arguments)
        assert trace.posterior.attrs["stopped"] == ""


@pytest.mark.recompiles
def test_a_slope_that_is_nan_where_the_density_is_not_small_is_an_error():
    def grad_loglik(theta, data, i, out):
        out[0] += math.nan if theta[0] > 0.5 else data[0][i] - math.exp(theta[0])

    sound = target(0.0, wall=math.inf)
    broken = amc.FunctionTarget(
        lambda theta, data, i: data[0][i] * theta[0] - math.exp(theta[0]),
        lambda theta: 0.0,
        data=COUNTS,
        n_obs=60,
        dim=1,
        grad_loglik=grad_loglik,
        grad_logprior=lambda theta, out: None,
    )
    langevin = amc.Langevin(0.1)
    assert draw(sound, amc.ExactTest(), proposal=langevin).posterior.attrs["stopped"] == ""
    with pytest.raises(NotFiniteError, match="log ratio of proposal densities is NaN"):
        draw(broken, amc.ExactTest(), proposal=langevin, tune=2000)


def met(model):
    """Return the meeting of two coupled chains: X makes 100 steps of 5 alone, and then both until step 400."""
    coupling = coupling_of(model, amc.MetropolisHastings(amc.RandomWalk(5.0), amc.ExactTest()))
    return coupling.meet(np.random.default_rng(7), np.zeros(1), np.ones(1), 100, 400)


@pytest.mark.recompiles
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_coupled_chains_reject_out_of_reach_as_the_sampler_does(value):
    """Bit by bit the coupling of a density that is 0 where the other is undefined; the search costs evaluations."""
    undefined, zero = met(target(value)), met(target(-math.inf))
    assert undefined.time == zero.time < 400
    np.testing.assert_array_equal(undefined.paths, zero.paths)
    assert undefined.passes > zero.passes


@pytest.mark.recompiles
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_coupled_chains_end_where_a_density_within_reach_is_undefined(value):
    with pytest.raises(NotFiniteError, match="a log density is NaN"):
        met(target(value, wall=2.7))


@pytest.mark.recompiles
@pytest.mark.filterwarnings("ignore:.*problem.* with this run")
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_slice_ends_before_a_density_that_is_undefined_out_of_reach(value):
    """Slices of width 20 are shrunk as if the density were 0 beyond the wall; one within reach ends the chain."""
    settings = {"draws": 60, "tune": 0, "random_seed": 7, "initvals": np.zeros(1), "progressbar": False}
    sampler = amc.samplers.SliceSampler(amc.samplers.Slice(20.0))
    undefined, zero = (amc.sample(target(there), sampler, chains=1, **settings) for there in (value, -math.inf))
    np.testing.assert_array_equal(undefined.posterior["theta"], zero.posterior["theta"])
    assert int(undefined.sample_stats["out_of_reach"].sum()) > 0
    with pytest.raises(NotFiniteError, match="is NaN or"):
        amc.sample(target(value, wall=2.7), sampler, chains=1, **settings)


def bounded(beyond, wall=WALL):
    """Return the same model with bounds L_i exp(-1/2), whose sum beyond the wall is as given."""

    def gap(theta, data, i):
        return 0.5

    def log_bound(theta, sums):
        within = sums[0][0] * theta[0] - 60.0 * math.exp(theta[0]) - 30.0
        return beyond if theta[0] > wall else within

    inner = target(beyond, wall=wall)
    return amc.targets.BoundedLikelihood(inner, gap, log_bound, np.array([COUNTS.sum()]))


@pytest.mark.recompiles
@pytest.mark.filterwarnings("ignore:.*problem.* with this run")
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("move", ["walk", "slice"])
def test_firefly_rejects_out_of_reach_of_the_joint_density(move, value):
    """Bit by bit the chain of a joint density that is 0 where the other is undefined; within reach the chain ends."""
    walks = amc.proposals.Mixture([amc.RandomWalk(0.3), amc.RandomWalk(8.0)])
    moves = {"walk": walks, "slice": amc.samplers.Slice(20.0)}
    sampler = amc.Firefly(moves[move], bound="own", z_update=amc.samplers.ImplicitResampling(0.3))
    settings = {"draws": 60, "tune": 0, "random_seed": 7, "initvals": np.zeros(1), "progressbar": False, "chains": 1}
    undefined, zero = (amc.sample(bounded(there), sampler, **settings) for there in (value, -math.inf))
    np.testing.assert_array_equal(undefined.posterior["theta"], zero.posterior["theta"])
    assert int(undefined.sample_stats["out_of_reach"].sum()) > 0
    assert np.unique(undefined.posterior["theta"]).size > 5
    if move == "slice":  # its first interval reaches beyond the wall
        with pytest.raises(NotFiniteError, match="the log joint density"):
            amc.sample(bounded(value, wall=2.5), sampler, **settings)
    else:
        stopped = amc.sample(bounded(value, wall=2.5), sampler, **settings)
        assert stopped.posterior.attrs["stopped"] == "failure" and stopped.posterior.sizes["draw"] < 60


@pytest.mark.recompiles
def test_a_state_of_the_start_that_is_nan_is_an_error():
    with pytest.raises(amc.errors.InvalidInputError, match="log density nan"):
        draw(target(math.nan), amc.ExactTest(), initvals=np.full(1, 10.0))
