"""Zig-zag and bouncy particle: what they refuse, what they count, what they say of a false bound."""

import re

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Component
from approxmcmc.contracts.records import EVENTS, ROW_EVENTS
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.pdmp.rows import ORDERS, RATE, slope_of
from approxmcmc.samplers.pdmp.step import make_step
from tests import pdmp as book
from tests.models import logistic, normal_mean
from tests.planting import plain

SAMPLERS = [amc.samplers.ZigZag, amc.samplers.BouncyParticle]


def log_poisson(eta, y):
    """Return log Poisson(y | exp(eta)) up to a constant."""
    return y * eta - np.exp(eta)


def poisson_derivatives(eta, y):
    """Return its first two derivatives, which no number bounds."""
    return y - np.exp(eta), -np.exp(eta)


def flat(theta):
    """Return a flat log prior."""
    return 0.0


def fit_of(dim):
    return amc.numerics.Laplace(np.zeros(dim), np.eye(dim))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (normal_mean, "needs a regression such as"),
        (lambda: amc.ControlVariate(logistic()), "give the plain target and not an expansion"),
        (lambda: logistic(dim=1, prior=flat), "is not normal in theta"),
        (lambda: amc.targets.GLMTarget(log_poisson, np.ones((4, 1)), np.arange(4.0)), "are finite differences"),
        (
            lambda: amc.targets.GLMTarget(
                log_poisson, np.ones((4, 1)), np.arange(4.0), derivatives_eta=poisson_derivatives
            ),
            "slope_bound=, second_derivative_bound= or third_derivative_bound=",
        ),
        (lambda: logistic(dim=2), "the fit has 1 parameters"),
    ],
)  # fmt: skip
def test_targets_without_what_is_needed_are_refused(sampler, make, match):
    with pytest.raises(IncompatibleError, match=match):
        sampler(fit_of(1)).build(make())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: amc.samplers.ZigZag(np.eye(2)), "must be a normal approximation"),
        (lambda: amc.samplers.ZigZag(fit_of(1), spacing=0.0), "spacing must be positive and finite, found 0.0"),
        (lambda: amc.samplers.ZigZag(fit_of(1), spacing=np.inf), "spacing must be positive and finite, found inf"),
        (lambda: amc.samplers.BouncyParticle(fit_of(1), refresh_rate=0.0), "refresh_rate must be positive"),
    ],
)
def test_settings_out_of_range_are_refused(make, match):
    with pytest.raises(InvalidInputError, match=match):
        make()


@pytest.mark.parametrize("sampler", SAMPLERS)
class TestChains:
    def test_counts_add_up(self, sampler):
        target = book.logistic_rows()
        draws, counts, _ = book.draws_of(target, sampler(amc.laplace(target)), steps=60, seed=1, start=[0.0, 0.0])
        assert np.isfinite(draws).all()
        assert (counts["datapoints_touched"] == counts["gradient_evaluations"]).all()
        assert (counts["datapoints_touched"] == counts["decisions_made"]).all()
        assert (counts["row_events"] <= counts["decisions_made"]).all()
        assert 0 < counts["row_events"].sum() < counts["events"].sum()

    def test_every_turn_is_an_event(self, sampler):
        target, own = book.logistic_rows(), streams(seed_sequences(1, 1)[0][0])
        program, turned = sampler(amc.laplace(target)).build(target), {"by row": 0, "else": 0}
        plan, turn, turn_by_row = (plain(getattr(program.dynamics, name)) for name in ("plan", "turn", "turn_by_row"))

        def counted_turn(rng, flight):
            turned["else"] += 1
            turn(rng, flight)

        def counted_turn_by_row(*arguments):
            found = turn_by_row(*arguments)
            turned["by row"] += found
            return found

        step, state = (
            plain(make_step(plan, counted_turn, counted_turn_by_row)),
            program.start(np.zeros(2), own, 0).state,
        )
        count, value = np.zeros(len(COUNT_NAMES), np.int64), np.zeros(len(VALUE_NAMES))
        for _ in range(60):
            step(own, state, count, value)
        assert count[ROW_EVENTS] == turned["by row"] > 0
        assert count[EVENTS] == turned["by row"] + turned["else"] > count[ROW_EVENTS]

    def test_reads_are_as_expected_and_as_predicted(self, sampler):
        target = logistic(100, 6)  # some forty rows a draw: where few are read, bounds are those of long spans
        trace = amc.sample(
            target, sampler(amc.laplace(target)), draws=40, tune=0, chains=1, random_seed=1, progressbar=False
        )
        stats = trace.sample_stats
        reads, expected = float(stats["datapoints_touched"].sum()), float(stats["expected_reads"].sum())
        assert abs(reads - expected) < 5.0 * expected**0.5
        assert 0.5 < reads / 40 / stats.attrs["setup_expected_reads"] < 2.0
        assert stats.attrs["setup_rows_of_order_2"] == 100

    def test_a_rate_beyond_its_bound_ends_the_run_and_names_the_datum(self, sampler):
        target = book.logistic_rows()
        program = sampler(amc.laplace(target)).build(target)
        program.split.records[program.split.rows == 6, 4] *= 0.02
        own = streams(seed_sequences(1, 1)[0][0])
        draws, _, chain = book.advance(program, [0.0, 0.0], own, 3000)
        assert len(draws) < 3000
        assert re.search(
            "residual of datum 6 is .* third_derivative_bound of the target is a true", chain.explain_failure()
        )

    def test_the_worst_of_several_false_bounds_is_named(self, sampler):
        """Nine tenths of the second largest rate lie above its bound, a hundredth of the largest; the third attains."""
        target = book.logistic_rows()
        program = sampler(amc.laplace(target)).build(target)
        chain = program.start(np.zeros(2), streams(seed_sequences(1, 1)[0][0]), 0)
        split, position = program.split, chain.state.flight.position
        rates = np.abs([slope_of(split, record, position) for record in split.records])
        *_, third, second, largest = np.argsort(rates)
        orders = np.repeat(np.arange(ORDERS), np.diff(split.first))
        for place, share in ((third, 1.0), (second, 0.1), (largest, 0.99)):
            split.records[place, RATE] = share * rates[place] / np.linalg.norm(position) ** orders[place]
        assert rates[largest] < 50.0 * rates[second]
        assert f"the slope of the residual of datum {split.rows[second]} is " in chain.explain_failure()
        assert "and so for 2 of 8 data" in chain.explain_failure()

    def test_one_seed_gives_one_chain_however_many_there_are(self, sampler):
        target = book.logistic_rows()
        settings = {"tune": 0, "draws": 30, "random_seed": 5, "progressbar": False}
        one, two = (amc.sample(target, sampler(amc.laplace(target)), chains=n, **settings) for n in (1, 2))
        np.testing.assert_array_equal(one.posterior["beta"][0], two.posterior["beta"][0])

    def test_a_row_of_zeros_does_no_harm(self, sampler):
        target = book.logistic_rows()
        X, y = np.vstack([target.X, np.zeros(2)]), np.append(target.y, 1.0)
        target = amc.targets.LogisticRegression(X, y)
        draws, _, _ = book.draws_of(target, sampler(amc.laplace(target)), steps=20, seed=1, start=[0.0, 0.0])
        assert np.isfinite(draws).all()

    def test_rows_of_zeros_alone_are_never_read(self, sampler):
        target = amc.targets.LogisticRegression(np.zeros((4, 2)), np.array([0, 1, 1, 0]))
        draws, counts, _ = book.draws_of(target, sampler(amc.laplace(target)), steps=20, seed=1, start=[0.1, 0.0])
        assert np.isfinite(draws).all() and len(np.unique(draws)) == 40
        assert not counts["datapoints_touched"].any() and not counts["row_events"].any()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_fit_survives_a_round_trip(sampler):
    one = sampler(fit_of(2), spacing=2.0)
    assert Component.from_dict(one.to_dict()) == one


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("name", "value"), [("slope_bound", 0.2), ("second_derivative_bound", 0.01), ("third_derivative_bound", 1e-3)]
)
def test_a_false_bound_is_refused_before_anything_runs(sampler, name, value):
    target = book.logistic_rows()
    fit = amc.laplace(target)
    setattr(target.likelihood, name, value)
    with pytest.raises(InvalidInputError, match=rf"{name} of .* is not a true bound: the residual of datum \d has"):
        sampler(fit).build(target)
