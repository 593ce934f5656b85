"""Input of the wrong kind: masked, unsigned, of mixed columns, misnamed, with seeds or starts of no use."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import GoldStandardError, IncompatibleError, InvalidInputError
from approxmcmc.targets import FunctionTarget, LogisticRegression, SoftmaxRegression
from tests.models import logistic

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
y = (X[:, 0] > 0.0).astype(int)
TARGET = logistic()
WALK = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest())
QUICK = {"draws": 20, "tune": 5, "chains": 2, "random_seed": 1, "progressbar": False}


def logistic_with(**settings):
    return LogisticRegression(X, y, **settings)


class TestData:
    def test_masked_values_are_refused(self):
        with pytest.raises(InvalidInputError, match="X has 1 masked value"):
            LogisticRegression(np.ma.masked_equal(X, X[3, 1]), y)
        assert LogisticRegression(np.ma.masked_array(X), y).n_obs == 30  # nothing is masked

    def test_unsigned_integers_do_not_wrap_around(self):
        with pytest.raises(InvalidInputError, match="beyond the largest int64"):
            LogisticRegression(np.full((30, 1), 2**64 - 1, dtype=np.uint64), y)
        assert LogisticRegression(np.full((30, 1), 200, dtype=np.uint8), y).X[0, 0] == 200.0

    def test_columns_of_several_types(self):
        """A DataFrame of floats and booleans is an array of objects."""
        import pandas

        frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0.0})
        target = LogisticRegression(frame, y)
        np.testing.assert_array_equal(target.X, np.column_stack([X[:, 0], X[:, 1] > 0.0]))
        frame["c"] = [{} for _ in y]
        for model in (LogisticRegression, SoftmaxRegression):
            with pytest.raises(InvalidInputError, match="column 'c' holds neither numbers nor labels"):
                model(frame, y)

    def test_a_list_of_numbers_is_one_array(self):
        settings = {"n_obs": 30, "dim": 1}
        (data,) = FunctionTarget(lambda t, d, i: d[0][i], lambda t: 0.0, data=X[:, 0].tolist(), **settings).data
        np.testing.assert_array_equal(data, X[:, 0])
        with pytest.raises(InvalidInputError, match=r"\(2,\)\] and so on; data is an array, or a tuple of arrays"):
            FunctionTarget(lambda t, d, i: 0.0, lambda t: 0.0, data=X.tolist(), **settings)

    @pytest.mark.parametrize("model", [LogisticRegression, SoftmaxRegression])
    @pytest.mark.parametrize("bad", [np.ones(2), "1", None, -1.0])
    def test_a_prior_scale_that_is_no_positive_number(self, model, bad):
        with pytest.raises(InvalidInputError, match=r"prior_scale must be positive, one number .* found"):
            model(X, y, prior_scale=bad)

    def test_an_initial_point_that_is_not_finite(self):
        with pytest.raises(InvalidInputError, match="initial_point has 1 NaN"):
            FunctionTarget(lambda t, d, i: 0.0, lambda t: 0.0, data=y, n_obs=30, dim=1, initial_point=[math.nan])


class TestNames:
    """What xarray would drop or mix up without a word."""

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"var_names": ["a", "a", "b"]}, r"var_names must be different, found \['a', 'a'\]"),
            ({"var_names": ["chain", "a", "b"]}, r"axes of every trace; rename \['chain'\]"),
            ({"var_names": [1, 2, 3]}, r"strings other than 'chain' and 'draw'.*rename \[1, 2, 3\]"),
            ({"var_names": "g", "dims": {"g": ["g"]}, "coords": {"g": list("xyz")}}, r"rename \['g'\]"),
            ({"var_names": "a", "dims": {"b": ["g"]}, "coords": {"g": [1, 2, 3]}}, r"dims name \['b'\]"),
            ({"var_names": "a", "dims": {"a": ["draw"]}, "coords": {"draw": [1, 2, 3]}}, r"rename \['draw'\]"),
            ({"var_names": {"a", "b", "c"}}, "var_names must be a text, or a sequence of texts, found"),
            ({"var_names": 3}, "var_names must be a text, or a sequence of texts, found 3"),
            ({"var_names": "a", "dims": {"a": [None]}, "coords": {None: [1, 2, 3]}}, r"rename \[None\]"),
            ({"var_names": ["a", "b", "\ud800"]}, r"cannot be saved; rename \['\\ud800'\]"),
            (
                {"var_names": "a", "dims": {"a": ["g"]}, "coords": {"g": ["x", "y", "\ud800"]}},
                "cannot be saved; rename",
            ),
            ({"dims": ["g"]}, "dims must be a mapping, such as a dict or None, found"),
            ({"coords": {"g": 3}}, r"a sequence of labels for each axis, see \['g'\]"),
        ],
    )
    def test_names_of_no_use_are_refused(self, settings, match):
        with pytest.raises(InvalidInputError, match=match):
            FunctionTarget(lambda t, d, i: 0.0, lambda t: 0.0, data=y, n_obs=30, dim=3, **settings)

    def test_every_target_is_looked_at(self):
        """Others bring their names with them: a model of PyMC, a network."""
        network = amc.targets.BayesianNetwork({"draw": [0.3, 0.7]})
        with pytest.raises(InvalidInputError, match=r"BayesianNetwork: .*rename \['draw'\]"):
            amc.sample(network, amc.Gibbs(), **QUICK)


class TestGroupLabels:
    """A missing label would join rows of different groups; NumPy makes the text "nan" of one in a list of texts."""

    @pytest.mark.parametrize("model", [amc.targets.GroupedTarget, amc.targets.NormalGroups])
    @pytest.mark.parametrize(
        ("labels", "match"),
        [
            ([None, "a"], "groups hold the missing label None in row 0"),
            (["a", math.nan], "groups hold the missing label nan in row 1"),
            (np.array([1.0, None], dtype=object), "groups hold the missing label None in row 1"),
            (np.array(["2020-01-01", "NaT"], dtype="M8[D]"), "groups hold the missing label .* in row 1"),
            (np.array([1.0, math.nan]), "groups hold NaN or infinity"),
            ([1, "1"], "groups hold labels of the types int, str, which cannot be sorted"),
            (np.array([{}, {1: 2}], dtype=object), "groups hold labels of the types dict, which cannot be sorted"),
        ],
    )
    def test_labels_that_are_missing_or_mixed_are_refused(self, model, labels, match):
        groups = labels * 15 if isinstance(labels, list) else np.tile(labels, 15)
        with pytest.raises(InvalidInputError, match=f"{model.__name__}: {match}"):
            model(X, y, groups)

    def test_lists_arrays_and_series_of_the_same_labels_are_the_same_groups(self):
        pandas = pytest.importorskip("pandas")
        labels = ["a", "b", "c"] * 10
        forms = [labels, tuple(labels), np.array(labels), np.array(labels, dtype=object), pandas.Series(labels)]
        targets = [amc.targets.NormalGroups(X, y, form) for form in forms]
        assert {target.content_hash() for target in targets} == {targets[0].content_hash()}


class TestSizes:
    """Lengths that no memory holds: the machine would take memory until it ends the process."""

    def test_a_theta_that_does_not_fit_in_memory_is_refused(self):
        def value(theta, *others):
            return 0.0

        makers = {
            "FunctionTarget": lambda dim: FunctionTarget(value, value, data=y, n_obs=30, dim=dim),
            "BatchTarget": lambda dim: amc.targets.BatchTarget(value, X, dim=dim),
            "EstimatedLikelihood": lambda dim: amc.targets.EstimatedLikelihood(value, value, dim=dim, data=X),
            "BinaryMRF": lambda dim: amc.targets.BinaryMRF(dim, [[0, 1]], np.zeros((1, 2, 2))),
        }
        for name, make in makers.items():
            for dim in (10**12, 1e12):
                with pytest.raises(InvalidInputError, match=rf"{name}: (dim|n_variables) must .* in memory.*found 1"):
                    make(dim)

    def test_an_error_of_memory_says_which_call_asked_for_it(self, monkeypatch):
        def full(*arguments, **settings):
            raise MemoryError("Unable to allocate")

        monkeypatch.setattr(amc.targets.GroupedTarget, "set_rule", full)
        with pytest.raises(MemoryError) as raised:
            amc.targets.GroupedTarget(X, y, y, n_nodes=10**12)
        [note] = raised.value.__notes__
        assert "GroupedTarget(" in note and "n_nodes=1000000000000" in note and "more memory than there is" in note


class TestShapes:
    """Compiled code checks no bounds: a vector of another length would be read, or written, beyond its end."""

    def test_a_start_of_the_wrong_length(self):
        graph = np.zeros((4, 4), dtype=int)
        graph[0, 1] = graph[1, 0] = 1
        target = amc.targets.ERGM(graph, ("edges", "two_stars"), prior_scale=1.0)
        for bad in ([0.0], [0.0] * 3, [math.nan, 0.0]):
            with pytest.raises(InvalidInputError, match="start must hold 2 finite numbers"):
                amc.design.robbins_monro(target, start=bad)

    def test_a_pilot_of_the_wrong_length_or_kind(self):
        walk = amc.RandomWalk(0.1)
        with pytest.raises(InvalidInputError, match=r"initvals must have shape \(3,\) or \(1, 3\)"):
            amc.design.design_test(TARGET, proposal=walk, initvals=np.zeros(4))
        with pytest.raises(IncompatibleError, match="proposal must be a proposal, found <class"):
            amc.design.design_test(TARGET, proposal=amc.RandomWalk)
        with pytest.raises(IncompatibleError, match=r"target must be a target, found array"):
            amc.design.plan_annealing(X, proposal=walk)

    def test_contexts_and_sites_that_are_none(self):
        field = amc.targets.BinaryMRF.from_triples(np.zeros((4, 2, 2, 2)))
        test = amc.SequentialTTest(0.1, 2)
        for contexts, sites in (([[0, 0, 0, 7]], [0]), ([[0, 0.5, 0, 0]], [0]), ([[0] * 4], [4]), ([[0] * 4], [-1])):
            with pytest.raises(InvalidInputError, match=r"contexts must hold states 0, 1, .* indices from 0 to 3"):
                amc.samplers.realised_conditional(field, test, contexts, sites)


class TestSeeds:
    @pytest.mark.parametrize("bad", [[1, 1], [1.5, 2], [-1, 2], np.zeros((2, 1), int), [None, None], [True, 2]])
    def test_sequences_of_no_use_are_refused(self, bad):
        """Equal entries would give equal chains, and an R-hat that says that all is well."""
        with pytest.raises(InvalidInputError, match=r"different integers >= 0, one for each chain"):
            seed_sequences(bad, 2)

    def test_a_seed_sequence_gives_the_same_seed_again(self):
        one, other = (seed_sequences(np.random.SeedSequence(5), 2) for _ in range(2))
        assert one[1] == other[1] != seed_sequences(np.random.SeedSequence(6), 2)[1]

    @pytest.mark.thorough
    def test_one_seed_per_chain_without_a_sampler(self):
        draws = [
            amc.sample(logistic(), **(QUICK | {"random_seed": seed})).posterior["beta"].values
            for seed in ([5, 6], [5, 7])
        ]
        np.testing.assert_array_equal(draws[0][0], draws[1][0])
        assert not np.array_equal(draws[0][1], draws[1][1])

    @pytest.mark.thorough
    @pytest.mark.parametrize("seed", [None, np.random.default_rng(3)], ids=["none", "generator"])
    def test_the_stored_seed_repeats_a_run_without_a_sampler(self, seed):
        trace = amc.sample(TARGET, **(QUICK | {"random_seed": seed}))
        again = amc.sample(TARGET, **(QUICK | {"random_seed": int(trace.posterior.attrs["seed"])}))
        settings = "inference_library_settings"  # the sentence about the choice has seconds in it
        assert trace.posterior.attrs[settings] == again.posterior.attrs[settings]
        np.testing.assert_array_equal(trace.posterior["beta"], again.posterior["beta"])


class TestSettings:
    """Of another kind than a component can compare: the error notes the component and its settings."""

    @pytest.mark.parametrize(
        ("make", "note"),
        [
            (lambda: amc.RandomWalk("a"), "RandomWalk(scale='a', "),
            (lambda: amc.RandomWalk(0.1, target_acceptance=[0.3]), "target_acceptance=[0.3]"),
            (lambda: amc.SequentialTTest(epsilon=None), "SequentialTTest(epsilon=None, "),
            (lambda: amc.proposals.Mixture(0.5), "Mixture(proposals=0.5, weights=None): a setting of the wrong kind"),
            (lambda: amc.samplers.Slice(lambda: 1.0), "help(Slice) says what each must be"),
        ],
    )
    def test_settings_of_another_kind(self, make, note):
        with pytest.raises((TypeError, ValueError, OverflowError)) as told:
            make()
        assert note in told.value.__notes__[0]

    def test_a_refusal_that_names_the_class_needs_no_note(self):
        with pytest.raises(
            InvalidInputError, match=r"^StochasticGradientLangevin: batch_size must be .*found inf"
        ) as told:
            amc.proposals.StochasticGradientLangevin(0.1, math.inf)
        assert not hasattr(told.value, "__notes__")

    def test_a_refusal_that_says_more_stays(self):
        with pytest.raises(InvalidInputError, match=r"^RandomWalk: standard deviations must be positive") as told:
            amc.RandomWalk(-1.0)
        assert not hasattr(told.value, "__notes__")

    @pytest.mark.parametrize(
        ("make", "match"),
        [
            (lambda: amc.targets.BinaryMRF(3, [], []), "indices holds no factor"),
            (lambda: amc.targets.BayesianNetwork([1, 2]), "tables must be a mapping, such as a dict"),
            (lambda: amc.targets.ERGM(np.zeros((3, 3)), statistics=None, prior_scale=1.0), "statistics must be a seq"),
            (lambda: amc.targets.ERGM(np.zeros((3, 3)), ("edges",), prior_bounds=1.0), "two finite numbers"),
            (lambda: logistic_with(coef_names=3), "coef_names must be a sequence of 2 names, found 3"),
            (lambda: logistic_with(coef_names="ab"), "coef_names must be a sequence"),
            (lambda: logistic_with(prior_scale=1e-200), "prior_scale must be positive, one number above 1e-150"),
            (lambda: amc.LinearRegression(X, y, prior_scale=1e-200), "prior_scale must be .* above 1e-150"),
            (lambda: amc.targets.OrderedRegression(X, y > 0, cutpoint_scale=1e-200), "cutpoint_scale .* above 1e-150"),
            (lambda: amc.targets.NormalGroups(X, y, y, effect_scale=1e-200), "effect_scale .* above 1e-150"),
        ],
    )
    def test_targets_of_nothing(self, make, match):
        with pytest.raises(InvalidInputError, match=match):
            make()

    @pytest.mark.parametrize(
        "proposal",
        [
            amc.RandomWalk(0.1, target_acceptance=0.3),
            amc.Langevin(0.1, target_acceptance=0.5),
            amc.proposals.Mixture([amc.RandomWalk(1.0), amc.RandomWalk(0.1, target_acceptance=0.3)]),
        ],
        ids=repr,
    )
    def test_nothing_is_tuned_to_answers_that_nobody_gives(self, proposal):
        with pytest.raises(IncompatibleError, match=r"target_acceptance=0\.[35] tunes"):
            amc.sample(
                logistic_with(), amc.MetropolisHastings(proposal, amc.acceptance.AlwaysAccept()), progressbar=False
            )

    def test_a_temperature_needs_the_whole_likelihood_in_the_terms(self):
        residuals = amc.ControlVariate(logistic_with())
        functions = {"gap": lambda theta, data, i: 1.0, "log_bound": lambda theta, sums: 0.0}
        for target in (residuals, amc.targets.BoundedLikelihood(residuals, **functions, sums=np.ones(1))):
            with pytest.raises(IncompatibleError, match="temperature"):
                amc.acceptance.MinibatchBarker(temperature=2.0).build_test(target)


class TestArguments:
    @pytest.mark.parametrize(
        ("bad", "match"),
        [
            ({"time_limit": "5"}, "time_limit must be positive seconds, or None, found '5'"),
            ({"audit_every": np.array([1, 2])}, "audit_every must be an integer"),
            ({"max_bias": 0.1}, "max_bias=0.1 only guides the choice of a sampler"),
            ({"initvals": "jitter"}, "initvals must be numbers, found 'jitter'"),
            ({"initvals": {"beta": ["a", "b", "c"]}}, "initvals of beta must be numbers"),
        ],
    )
    def test_values_of_another_kind_are_refused(self, bad, match):
        with pytest.raises(InvalidInputError, match=match):
            amc.sample(TARGET, WALK, **(QUICK | bad))

    def test_arguments_are_looked_at_before_a_sampler_is_chosen(self, monkeypatch):
        monkeypatch.setattr("approxmcmc.design.choice.choose_sampler", lambda *_, **__: pytest.fail("a pilot was run"))
        with pytest.raises(InvalidInputError, match="draws"):
            amc.sample(TARGET, draws=-1)

    @pytest.mark.thorough
    def test_a_run_goes_on_where_another_ended(self):
        """The last draw of a trace, an xarray object with a coordinate called draw, is a start."""
        first = amc.sample(TARGET, WALK, **QUICK)
        last = first.posterior.isel(chain=0, draw=-1)
        given = amc.sample(TARGET, WALK, **QUICK, initvals=last["beta"].values)
        for form in (last, last["beta"]):
            found = amc.sample(TARGET, WALK, **QUICK, initvals=form)
            np.testing.assert_array_equal(found.posterior["beta"], given.posterior["beta"])
        with pytest.raises(InvalidInputError, match=r"need shape \(3,\), found \(2, 3\).*give a list of dicts"):
            amc.sample(TARGET, WALK, **QUICK, initvals=first.posterior.isel(draw=-1))


@pytest.fixture(scope="module")
def trace():
    return amc.sample(TARGET, WALK, **QUICK)


class TestDiagnostics:
    """The message names an argument that is no trace, or not the one that is needed."""

    @pytest.mark.parametrize(
        ("bad", "error", "message"),
        [
            (None, InvalidInputError, "a trace is needed, an xarray.DataTree .*; found a NoneType"),
            ([], InvalidInputError, "found an empty list"),
            ("trace.nc", FileNotFoundError, "There is no trace at trace.nc"),
        ],
    )
    def test_what_is_no_trace(self, trace, bad, error, message):
        with pytest.raises(error, match=message):
            amc.cost_summary(bad)
        with pytest.raises(error, match=message):
            amc.risk(bad, trace)

    def test_traces_without_names(self, trace):
        with pytest.raises(InvalidInputError, match="runs must be a dict of name -> trace or traces, found"):
            amc.compare_samplers([trace], trace)
        with pytest.raises(InvalidInputError, match="runs must be a dict of name -> trace or traces, found one Data"):
            amc.compare_samplers(trace, trace)

    @pytest.mark.parametrize(
        ("bad", "match"),
        [
            ({"estimands": lambda posterior: posterior["beta"]}, "estimands must be a dict of name -> function.*found"),
            ({"n_grid": 0}, "`n_grid` needs at least 1 point"),
            ({"n_bootstrap": 0}, "`n_bootstrap` needs at least 1 repetition"),
        ],
    )
    def test_settings_of_the_risk(self, trace, bad, match):
        with pytest.raises(InvalidInputError, match=match):
            amc.risk(trace, trace, over="datapoints_touched", **bad)  # seconds of so few draws may not overlap

    def test_draws_without_weights(self, trace):
        with pytest.raises(InvalidInputError, match="needs draws with weights"):
            amc.diagnostics.importance_estimates(trace)

    def test_trace_and_reference_in_the_wrong_order(self, trace):
        with pytest.raises(GoldStandardError, match=r"in this order; the second lacks the group 'reference_moments'"):
            amc.reference.attach_reference(trace, trace)

    def test_gates_that_are_none(self):
        with pytest.raises(InvalidInputError, match="gates must be Gates"):
            amc.reference_posterior(TARGET, gates={"max_r_hat": 1.1})
        with pytest.raises(InvalidInputError, match=r"max_r_hat must be at least 1, found '1\.1'"):
            amc.reference.Gates(max_r_hat="1.1")

    def test_plots(self, trace):
        import matplotlib

        matplotlib.use("Agg")
        with pytest.raises(InvalidInputError, match="needs a result of `risk`, or a dict of sampler"):
            amc.plot_risk([trace])
        with pytest.raises(InvalidInputError, match="needs a trace, a dict of epsilon -> traces, or a table; found a"):
            amc.plot_cost(None)
