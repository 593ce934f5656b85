"""One door for draws: every form gives the same trace; names, lengths, ensembles, seconds."""

import collections
from types import SimpleNamespace

import arviz as az
import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.diagnostics.traces import as_list
from approxmcmc.errors import ApproxMCMCWarning, InvalidInputError
from tests.fakes import fake_trace
from tests.studies.toys import ToyTarget

CHAINS = 3
DRAWS = 50
TARGET = ToyTarget()  # beta, of two coordinates
State = collections.namedtuple("State", "position logdensity")


def thetas(chains=CHAINS, draws=DRAWS, seed=0):
    return np.random.default_rng(seed).normal(size=(chains, draws, 2))


def by_variable(values):
    return {"beta": values}


def tree(values, name="beta", **coords):
    dims = ("chain", "draw", "k")
    return xr.DataTree.from_dict({"posterior": xr.Dataset({name: (dims, values)}, coords=coords)})


class Numpyro:
    """What `as_trace` reads of a numpyro MCMC."""

    def __init__(self, values, kernel):
        self.values = values
        self.sampler = type(kernel, (), {})()

    def get_samples(self, group_by_chain):
        assert group_by_chain
        return {"beta": self.values}


FORMS = {
    "tree": tree,
    "dataset": lambda values: tree(values)["posterior"].to_dataset(),
    "dict": by_variable,
    "dict of groups": lambda values: {"posterior": {"beta": values}},
    "array": lambda values: values,
    "list of arrays": list,
    "list of dicts": lambda values: [{"beta": chain} for chain in values],
    "list of traces": lambda values: [tree(chain[None]) for chain in values],
    "arviz": lambda values: az.from_dict({"posterior": {"beta": values}}),
    "numpyro": lambda values: Numpyro(values, "NUTS"),
    "emcee": lambda values: SimpleNamespace(get_chain=lambda: np.moveaxis(values, 0, 1)),
    "states of blackjax": lambda values: State(np.moveaxis(values, 0, 1), None),
    "states of blackjax by variable": lambda values: State({"beta": np.moveaxis(values, 0, 1)}, None),
    "scalars": lambda values: {f"var_{k}": values[..., k] for k in range(2)},
    "another name": lambda values: tree(values, "b"),
}


@pytest.mark.filterwarnings("ignore:The draws have the variables")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_draws(form):
    values = thetas()
    posterior = amc.as_trace(FORMS[form](values), TARGET)["posterior"]
    np.testing.assert_array_equal(posterior["beta"].transpose("chain", "draw", ...), values)
    assert posterior["chain"].values.tolist() == [0, 1, 2]


def states(*leading):
    """States of blackjax, with a log density for each draw, and the records of each step."""
    values = np.random.default_rng(0).normal(size=(*leading, 2))
    infos = collections.namedtuple("Info", "acceptance_rate momentum")(np.ones(leading), values)
    return State({"beta": values}, np.zeros(leading)), infos


def test_the_density_of_states_says_which_axes_are_those_of_a_variable():
    """A vector of two coordinates is not two chains, and no target is needed."""
    one, infos = states(DRAWS)
    for draws in (one, (one, infos), (one, (one, infos))):
        np.testing.assert_array_equal(amc.as_trace(draws)["posterior"]["beta"], one.position["beta"][None])
    many, infos = states(DRAWS, CHAINS)
    trace = amc.as_trace((many, infos))
    np.testing.assert_array_equal(trace["posterior"]["beta"], np.moveaxis(many.position["beta"], 1, 0))
    assert list(trace["sample_stats"].data_vars) == ["acceptance_rate"]
    assert len(as_list((many, infos))) == 1


def test_axes_that_are_unknown_or_swapped_are_not_guessed():
    with pytest.raises(InvalidInputError, match="would be 50 chains of 3 draws"):
        amc.as_trace(states(CHAINS, DRAWS)[0])
    with pytest.raises(InvalidInputError, match="do not say which of their axes"):
        amc.as_trace(State({"beta": thetas()}, None))
    with pytest.warns(ApproxMCMCWarning, match="these are 50 chains of 2 draws"):
        amc.as_trace({"beta": thetas()[0]})
    assert amc.as_trace({"beta": thetas()[0]}, TARGET)["posterior"].sizes["chain"] == 1


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_files_of_arviz(tmp_path, kind):
    path = tmp_path / f"run.{kind}"
    trace = az.from_dict({"posterior": by_variable(thetas())})
    trace.to_netcdf(path) if kind == "nc" else trace.to_zarr(path, consolidated=False)
    np.testing.assert_array_equal(amc.as_trace(path, TARGET)["posterior"]["beta"], thetas())
    np.testing.assert_array_equal(amc.as_trace(str(path))["posterior"]["beta"], thetas())


def test_an_old_inference_data_is_read_by_its_groups():
    class InferenceData:
        posterior = tree(thetas())["posterior"].to_dataset()

        def groups(self):
            return ["posterior"]

        def __getitem__(self, name):
            return getattr(self, name)

    np.testing.assert_array_equal(amc.as_trace(InferenceData())["posterior"]["beta"], thetas())


def test_one_chain_needs_no_axis_for_it():
    for draws in (thetas()[0], {"beta": thetas()[0]}, tree(thetas()).isel(chain=0)):
        assert amc.as_trace(draws, TARGET)["posterior"]["beta"].shape == (1, DRAWS, 2)


def test_a_trace_of_this_library_is_returned_as_it_is():
    trace = fake_trace(thetas())
    assert amc.as_trace(trace) is trace
    assert amc.as_trace(trace, ToyTarget()) is trace


@pytest.mark.parametrize("draws", [3, thetas()[..., :1], {"beta": thetas()[..., :1]}, tree(thetas()[..., :1], "b"), []])
def test_what_does_not_fit_is_refused(draws):
    with pytest.raises(InvalidInputError, match=r"trace is needed|need"):
        amc.as_trace(draws, TARGET)
    with pytest.raises(InvalidInputError, match="`replicate` must be one of"):
        amc.as_trace(thetas(), replicate="walker")


# --- labels ---


def test_coordinates_are_matched_by_label():
    reference = fake_trace(thetas(), labels=["a", "b"])
    swapped = tree(thetas()[..., ::-1], k=["b", "a"])
    np.testing.assert_array_equal(amc.as_trace(swapped, reference)["posterior"]["beta"], thetas())


@pytest.mark.parametrize("invented", [[0, 1], ["x0", "x1"]])
def test_invented_labels_are_matched_by_position(invented):
    reference = fake_trace(thetas(seed=1, draws=400), labels=invented)
    named = fake_trace(thetas(), labels=["age", "weight"])
    plain = amc.risk(fake_trace(thetas(), labels=invented), reference, n_bootstrap=10)
    with pytest.warns(ApproxMCMCWarning, match=r"matched by position: age as (x?0), weight as \1|age as"):
        xr.testing.assert_equal(amc.risk(named, reference, n_bootstrap=10), plain)
    unlabelled = amc.risk(tree(thetas()), reference, clock=float(DRAWS), n_bootstrap=10)  # no warning
    np.testing.assert_array_equal(unlabelled["risk"], plain["risk"])
    assert unlabelled["estimand"].values.tolist() == plain["estimand"].values.tolist()


def test_other_names_are_matched_in_order_with_a_warning():
    with pytest.warns(ApproxMCMCWarning, match=r"variables var_0, var_1 in place of beta: .*matched in order"):
        amc.as_trace(FORMS["scalars"](thetas()), TARGET)


# --- replicates ---


def test_chains_of_a_list_may_have_any_lengths():
    chains = [thetas()[0], thetas()[1, :20], thetas()[2, :35]]
    reference = fake_trace(thetas(seed=1, draws=400))
    trace = amc.as_trace(chains, TARGET, seconds=[50.0, 20.0, 35.0])
    assert trace["posterior"].attrs["draws_per_chain"] == [50, 20, 35]
    apart = amc.risk(chains[1:] + chains[:1], reference, clock=[20.0, 35.0, 50.0], n_bootstrap=10, grid=[5.0, 20.0])
    xr.testing.assert_allclose(amc.risk(trace, reference, n_bootstrap=10, grid=[5.0, 20.0]), apart)
    assert "the first 20 of each" in amc.diagnose(trace).set_index("check")["finding"]["chain lengths"]


def test_joined_runs_keep_the_tuning_seconds_of_each():
    runs = [fake_trace(thetas()[:1], tuning={"perf_counter_diff": [seconds]}) for seconds in (1.0, 2.0)]
    assert amc.cost_summary(amc.as_trace(runs))["tuning_seconds"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.thorough
def test_an_ensemble_is_one_estimate_in_one_time():
    """Eight ensembles of 16 walkers: the risk is that of their means, a sixteenth of that of a walker."""
    reference = fake_trace(thetas(10, 20_000, seed=9))
    ensembles = [thetas(16, 100, seed=seed) for seed in range(8)]
    traces = [amc.as_trace(walkers, TARGET, seconds=1.0, replicate="trace") for walkers in ensembles]
    errors = (
        np.array([walkers.mean(axis=(0, 1)) for walkers in ensembles])
        - reference["posterior"]["beta"].mean(("chain", "draw")).to_numpy()
    )
    table = amc.compare_samplers({"ensemble": traces}, reference, n_bootstrap=10)
    assert table.loc["ensemble", "risk"] == pytest.approx((errors**2).mean(), rel=0.05)
    assert table.loc["ensemble", "seconds"] == pytest.approx(8.0)
    curves = amc.risk(traces, reference, n_bootstrap=10, average_over="beta")
    assert int(curves["n_replicates"]) == 8
    assert float(curves["time"][-1]) == pytest.approx(1.0)


@pytest.mark.thorough
def test_libraries_of_ensembles_are_known():
    def by_arviz(values):
        return az.from_dict({"posterior": by_variable(values)}, attrs={"posterior": {"inference_library": "emcee"}})

    for make in (FORMS["emcee"], lambda values: Numpyro(values, "AIES"), by_arviz):
        runs = [make(thetas(seed=1)), make(thetas(seed=2))]
        found = amc.risk(runs, fake_trace(thetas(draws=400)), clock=1.0, n_bootstrap=10)
        assert int(found["n_replicates"]) == 2
