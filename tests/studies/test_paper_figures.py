"""Figures and tables of the papers, held to numbers that are computed again from the draws, without the studies' code.

The draws are made up, so that right and wrong figures differ by much more than rounding.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from studies import gibbs_mrf, noisy_florentine, noisy_ising, noisy_molecule, sgld_kdd99
from studies.tools.cost_of_epsilon import cost_against_epsilon
from studies.tools.log_risk import log_risk_against_time
from studies.tools.marginals import pair_marginals
from tests.fakes import fake_trace
from tests.studies.test_report import DRAWS, N_OBS, make_results

pytestmark = pytest.mark.thorough


def results_of(traces, **more):
    """Return what an analysis reads of results: traces by target and label."""
    return SimpleNamespace(traces=lambda: traces, preset="smoke", **more)


# --- Austerity in MCMC Land ---


def ends(trace):
    """Return the seconds at which the draws of a one-chain trace were made."""
    return np.cumsum(trace["sample_stats"]["perf_counter_diff"].to_numpy()[0])


@pytest.fixture(scope="module")
def austerity():
    """Return results of three settings by six chains."""
    return make_results()


def test_figure_2_counts_data_and_wrong_decisions(austerity):
    [figure] = cost_against_epsilon(austerity)
    rows = figure.data.set_index("epsilon")
    for (_, label), traces in austerity.traces().items():
        row = rows.loc[float(label.split("=")[1].rstrip("]"))]
        touched = [trace["sample_stats"]["datapoints_touched"].to_numpy() for trace in traces]
        assert row["data"] == pytest.approx(np.mean(touched) / N_OBS)
        wrong = sum(int(trace["sample_stats"]["wrong_decisions"].sum()) for trace in traces)
        assert row["audited"] == len(traces) * DRAWS / 10 and row["wrong_count"] == wrong
        assert row["wrong"] == pytest.approx(wrong / row["audited"])
    assert rows.loc[0.0, "data"] == 1.0 and rows.loc[0.0, "wrong_count"] == 0 < rows["wrong_count"].max()


def test_figure_3_counts_the_steps_made_within_the_budget(austerity):
    [_, table] = log_risk_against_time(austerity)
    steps = table.data.set_index("setting")["steps"]
    budget = float(table.caption.split()[1])
    for (_, label), traces in austerity.traces().items():
        assert steps[label] == pytest.approx(np.mean([(ends(trace) <= budget).sum() for trace in traces]), abs=1.0)
    assert len(set(steps.round())) == len(steps)  # settings of other speeds


def test_figure_4_shows_the_second_half_of_the_draws_up_to_each_time(austerity):
    [figure] = pair_marginals(austerity, variable="beta", epsilons=(0.0, 0.2), fractions=(0.25, 1.0))
    shown = 0
    for (epsilon, time, run), panel in figure.data.groupby(["epsilon", "time", "run"]):
        trace = austerity.traces()["toy", f"austerity[epsilon={epsilon}]"][int(run)]
        done = int((ends(trace) <= time).sum())
        draws = trace["posterior"]["beta"].to_numpy()[0, done // 2 : done]
        np.testing.assert_array_equal(panel[["beta[0]", "beta[1]"]], draws[:: 1 + len(draws) // 300])
        shown += 1
    assert shown == 2 * 2 * 3


def test_figures_5_and_6_show_the_error_of_the_variance_of_the_draws_so_far(rng, monkeypatch):
    truth = np.array([1.0, 4.0])
    monkeypatch.setattr(sgld_kdd99, "true_variance", lambda results: (truth, "known"))
    labels = {
        f"sgld[step_size={sgld_kdd99.STEP_SIZES[0]!r}]": "SGLD",
        f"corrected[step_size={sgld_kdd99.STEP_SIZES[1]!r}, epsilon=0.05]": "epsilon = 0.05",
    }
    chains = {label: [rng.standard_normal((1, 400, 2)) * (1.0, 3.0) for _ in range(2)] for label in labels}
    traces = {
        ("kdd99", label): [fake_trace(draws, seconds_per_draw=0.5) for draws in of_label]
        for label, of_label in chains.items()
    }
    results = results_of(traces, study=SimpleNamespace(replicates=2))
    figure, table = sgld_kdd99.figures_5_and_6(results)
    assert len(table.data) == 2
    for label, name in labels.items():
        curve = figure.data[figure.data["setting"] == name]
        for row in curve.itertuples():
            n = int(row.seconds / 0.5)
            errors = [np.abs(draws[0, :n].var(axis=0) / truth - 1.0).mean() for draws in chains[label]]
            assert row.error == pytest.approx(np.mean(errors), rel=1e-9)
        assert curve["error"].iloc[-1] == pytest.approx(0.63, abs=0.25)  # (0 + |9/4 - 1|) / 2


def test_figure_8_is_the_error_of_joint_distributions_against_pairs_and_seconds(rng):
    field = gibbs_mrf.small_field()
    n_sites = field.n_states.size
    labels = ["sequential[epsilon=0.0]", "sequential[epsilon=0.25]", "all_pairs"]
    draws = {label: rng.integers(0, 2, (1, 40, n_sites)) for label in labels}
    traces = {
        ("triples", label): [fake_trace(draws[label], name="x", datapoints_per_draw=7, seconds_per_draw=0.25)]
        for label in labels
    }
    settings = [
        SimpleNamespace(label=label, sampler=SimpleNamespace(test=None)) for label in labels if label != "all_pairs"
    ]
    results = results_of(traces, target=lambda name: field, study=SimpleNamespace(settings=lambda: settings))
    figure, table = gibbs_mrf.figure_8(results)
    cliques = gibbs_mrf.random_cliques(n_sites, n_cliques=100, size=5, random_seed=gibbs_mrf.SEED)
    cells = list(itertools.product((0, 1), repeat=5))
    exact = [field.joint(clique).ravel() for clique in cliques]

    def error(states):
        """Return the mean over subsets of sum |P_hat - P|."""
        shares = [[(states[:, clique] == cell).all(axis=1).mean() for cell in cells] for clique in cliques]
        return np.abs(np.array(shares) - exact).sum(axis=1).mean()

    for label in labels:
        curve = figure.data[figure.data["setting"] == label]
        assert curve["sweeps"].iloc[-1] == 40
        for row in curve.iloc[[0, -1]].itertuples():
            assert row.error == pytest.approx(error(draws[label][0, : row.sweeps]), rel=1e-9)
            assert (row.pairs, row.seconds) == (7 * row.sweeps, 0.25 * row.sweeps)
    more = table.data.set_index("epsilon")["error less that of all pairs"]
    assert more[0.25] == pytest.approx(error(draws[labels[1]][0]) - error(draws["all_pairs"][0]), rel=1e-9)


# --- Noisy Monte Carlo ---

SPINS = np.array([[1, 1, -1], [1, 1, -1], [1, -1, -1]])


def neighbours(spins):
    """Return the sums of products of neighbours of lattices, shape (..., 3, 3)."""
    return (spins[..., 1:, :] * spins[..., :-1, :]).sum((-1, -2)) + (spins[..., 1:] * spins[..., :-1]).sum((-1, -2))


def exact_lattice(n_points):
    """Return a grid of theta over the prior's interval and the posterior weights on it, by all 512 lattices."""
    grid = np.linspace(*noisy_ising.BOUNDS, n_points)
    sums = neighbours(np.array(list(itertools.product((-1, 1), repeat=9))).reshape(-1, 3, 3))
    log_posterior = grid * neighbours(SPINS) - np.logaddexp.reduce(grid[:, None] * sums, axis=1)
    weights = np.exp(log_posterior - log_posterior.max())
    return grid, weights / weights.sum()


@pytest.fixture
def lattices(rng):
    """Return results of two samplers on two lattices, and the draws."""
    target = amc.targets.Ising(SPINS, prior_bounds=noisy_ising.BOUNDS)
    draws = {
        (name, label): rng.uniform(0.1, 0.4, (1, 200)) for name in ("first", "second") for label in ("exchange", "mala")
    }
    stats = fake_trace(np.zeros((1, 200)), stats={"auxiliary_updates": 50})["sample_stats"].to_dataset()
    posteriors = {key: xr.Dataset({"theta": (("chain", "draw"), theta)}) for key, theta in draws.items()}
    traces = {
        key: [xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})]
        for key, posterior in posteriors.items()
    }
    study = SimpleNamespace(targets={"first": None, "second": None})
    return results_of(traces, target=lambda name: target, study=study), draws


def test_figure_1_is_the_bias_of_posterior_means_in_exact_standard_deviations(lattices, monkeypatch):
    results, draws = lattices
    monkeypatch.setattr(noisy_ising, "clock_of", lambda results: SimpleNamespace(record="perf_counter_diff"))
    figure, table = noisy_ising.figure_1(results)
    grid, weights = exact_lattice(noisy_ising.GRID["smoke"])
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    rows = figure.data.set_index(["lattice", "sampler"])
    for key, theta in draws.items():
        assert rows.loc[key, "bias"] == pytest.approx((theta.mean() - mean) / sd, rel=1e-6)
        assert rows.loc[key, "sd ratio"] == pytest.approx(theta.std() / sd, rel=1e-6)
    means = table.data.set_index("sampler")["mean bias"]
    biases = [(draws[name, "mala"].mean() - mean) / sd for name in ("first", "second")]
    assert means["mala"] == pytest.approx(np.mean(biases), rel=1e-6)


def test_figure_2_has_the_exact_density_and_histograms_of_the_draws(lattices):
    results, draws = lattices
    [figure] = noisy_ising.figure_2(results)
    grid, weights = exact_lattice(noisy_ising.GRID["smoke"])
    exact = figure.data[figure.data["sampler"] == "exact"]
    np.testing.assert_allclose(exact["theta"], grid)
    np.testing.assert_allclose(exact["density"], weights / (grid[1] - grid[0]), rtol=1e-6)
    for label in ("exchange", "mala"):
        bars = figure.data[figure.data["sampler"] == label]
        width = bars["theta"].diff().median()
        for bar in bars.itertuples():
            inside = np.abs(draws["first", label] - bar.theta) < 0.5 * width
            assert bar.density == pytest.approx(inside.mean() / width, abs=0.011 / width)  # a draw on an edge
        assert bars["density"].sum() * width == pytest.approx(1.0)


def test_table_1_has_the_moments_of_draws_and_their_distance_from_the_exact_mean(rng, monkeypatch):
    points = {"edges": [-3.0, -2.0], "two_stars": [0.0, 0.2]}
    weight = xr.DataArray([[0.1, 0.2], [0.3, 0.4]], points, tuple(points))
    monkeypatch.setattr(noisy_florentine, "exact_posterior", lambda results: {"weight": weight})
    mean = np.array([-3.0 * 0.3 - 2.0 * 0.7, 0.2 * 0.6])
    sd = np.array([np.sqrt(0.3 * 0.7), 0.2 * np.sqrt(0.6 * 0.4)])
    draws = {label: rng.normal([-2.2, 0.1], [0.5, 0.1], (2, 300, 2)) for label in ("exact_draws", "mala_exchange")}
    traces = {
        ("business", label): [fake_trace(theta[k : k + 1], name="theta") for k in range(2)]
        for label, theta in draws.items()
    }
    note, table = noisy_florentine.table_1(results_of(traces))
    rows = table.data.set_index("sampler")
    for k, name in enumerate(("edges", "two_stars")):
        assert rows.loc["exact posterior", f"{name} mean"] == pytest.approx(mean[k])
        assert rows.loc["exact posterior", f"{name} sd"] == pytest.approx(sd[k])
        for label, theta in draws.items():
            own = theta[..., k]
            assert rows.loc[label, f"{name} mean"] == pytest.approx(own.mean())
            assert rows.loc[label, f"{name} sd"] == pytest.approx(own.std())
            assert rows.loc[label, f"{name} error / sd"] == pytest.approx((own.mean() - mean[k]) / sd[k])
            # Independent draws: the standard error of their mean is sd / sqrt(n).
            assert rows.loc[label, f"{name} mcse"] == pytest.approx(own.std() / np.sqrt(own.size), rel=0.3)
    assert f"({mean[0]:.3f}, {mean[1]:.3f})" in note.text


def test_table_2_has_the_moments_of_draws_and_their_distance_from_the_reference(rng, monkeypatch):
    reference = rng.normal([2.0, -0.8, -0.1, 1.6], [2.0, 0.7, 0.4, 0.5], (2, 400, 4))
    monkeypatch.setattr(noisy_molecule, "reference", lambda results: reference)
    theta = rng.normal([2.5, -1.0, 0.0, 1.5], [2.5, 0.9, 0.4, 0.6], (1, 500, 4))
    traces = {("molecule", "exchange"): [fake_trace(theta, name="theta")]}
    moments, distances = noisy_molecule.table_2(results_of(traces))
    rows, far = moments.data.set_index("sampler"), distances.data.set_index("sampler")
    for k, name in enumerate(noisy_molecule.NAMES):
        own, gold = theta[..., k], reference[..., k]
        assert rows.loc["reference", f"{name} mean"] == pytest.approx(gold.mean())
        assert rows.loc["exchange", f"{name} mean"] == pytest.approx(own.mean())
        assert rows.loc["exchange", f"{name} sd"] == pytest.approx(own.std())
        assert far.loc["exchange", f"{name} error / sd"] == pytest.approx((own.mean() - gold.mean()) / gold.std())
        assert far.loc["exchange", f"{name} sd ratio"] == pytest.approx(own.std() / gold.std())
        half = 0.5 * (far.loc["exchange", f"{name} error / sd_upper"] - far.loc["exchange", f"{name} error / sd_lower"])
        noise = np.hypot(own.std() / np.sqrt(own.size), gold.std() / np.sqrt(gold.size))
        assert half == pytest.approx(1.96 * noise / gold.std(), rel=0.3)
