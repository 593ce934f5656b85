"""What the studies' pictures compute: places of nodes, marginals, exact cells, noises of a step."""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from approxmcmc.datasets import florentine_business
from approxmcmc.study.report.markdown import rounded
from studies import alarm, sgld_mixture
from studies.tools.chain_figures import FEWEST, chain_figures, draw_marginals, grid_marginals
from studies.tools.network_figure import distances, layout, network_figure


def test_a_path_is_laid_out_as_a_line_and_loners_below():
    adjacency = np.zeros((6, 6), dtype=np.int64)
    for i, j in ((0, 2), (2, 1), (1, 3)):
        adjacency[i, j] = adjacency[j, i] = 1
    places = layout(adjacency)
    found = np.linalg.norm(places[:4, None] - places[None, :4], axis=-1)
    np.testing.assert_allclose(found, distances(adjacency)[:4, :4], atol=1e-6)
    assert (places[4:, 1] < places[:4, 1].min() - 0.5).all()


def test_the_network_of_the_families():
    figure = network_figure(florentine_business(), "Figure 3 of the paper.")
    assert len(figure.data) == 15 and "5 nodes without any" in figure.caption
    assert sorted(figure.data.loc[figure.data["from"] == "Medici", "to"]) == ["Pazzi", "Salviati", "Tornabuoni"]


def test_marginals_integrate_to_one(rng):
    weight = xr.DataArray(rng.random((4, 5)), {"a": np.linspace(0, 1, 4), "b": np.linspace(0, 2, 5)}, ("a", "b"))
    for points, density in grid_marginals(weight).values():
        assert density.sum() * (points[1] - points[0]) == pytest.approx(1.0)
    for points, density in draw_marginals(rng.standard_normal((2, 4000, 2)), ("a", "b")).values():
        assert density.sum() * (points[1] - points[0]) == pytest.approx(0.996, abs=1e-3)


def trace_of(draws):
    posterior = xr.Dataset({"theta": (("chain", "draw", "d"), draws[None])})
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": xr.Dataset(attrs={"thin": 1})})


def test_chains_in_pictures_are_the_draws_and_short_ones_are_named(rng):
    long, short = rng.standard_normal((200, 2)), rng.standard_normal((FEWEST - 1, 2))
    results = SimpleNamespace(traces=lambda: {("t", "walk"): [trace_of(long)], ("t", "slow"): [trace_of(short)]})
    truth = draw_marginals(rng.standard_normal((1000, 2)), ("a", "b"))
    chains, densities, correlations = chain_figures(results, {"walk": "walk", "slow": "slow"}, truth, "the truth")
    np.testing.assert_array_equal(chains.data["y"], long.T.ravel())
    assert "slow made fewer than" in chains.caption and "slow made fewer than" in densities.caption
    centred = long[:, 0] - long[:, 0].mean()
    lag_1 = correlations.data[(correlations.data["panel"] == 0) & (correlations.data["x"] == 1)]["y"]
    [lag_1] = lag_1[lag_1 != 0.0]  # the other line is that of no correlation
    assert lag_1 == pytest.approx(centred[1:] @ centred[:-1] / (centred @ centred), abs=0.02)


def test_exact_cells_of_the_mixture_are_its_grid():
    from approxmcmc.reference.grid import grid_reference

    target = sgld_mixture.mixture()
    moments = grid_reference(target.log_density(), target.variables, target.bounds, n_points=121)["reference_moments"]
    found = sgld_mixture.exact_summary()
    for name in ("theta1", "theta2"):
        for moment, heading in (("mean", f"mean of {name}"), ("sd", f"sd of {name}")):
            assert found[heading] == pytest.approx(float(moments[name].sel(moment=moment)), abs=1e-5)
    cells = sgld_mixture.exact_cells()
    assert cells.sum() == pytest.approx(1.0) and sgld_mixture.distance(cells, cells) == 0.0
    assert sgld_mixture.distance(0.0 * cells, cells) == pytest.approx(1.0)


def test_weights_count_in_a_summary():
    theta, weights = np.array([[0.0, 1.0], [1.0, -1.0]]), np.array([3.0, 1.0])
    found = sgld_mixture.summary(theta, weights)
    assert found["P(theta2 > 0)"] == 0.75 and found["mean of theta2"] == pytest.approx(0.5)
    np.testing.assert_allclose(sgld_mixture.histogram(theta, weights).sum(), 1.0)


def test_steps_fall_from_the_first_to_the_last_of_the_paper():
    steps = sgld_mixture.falling_steps()
    assert steps.at(0) == pytest.approx(0.01) and steps.at(1_000_000) == pytest.approx(0.0001)


@pytest.mark.parametrize(
    ("drawn", "kept"),
    [
        ("M 1.0 2.5 L 1.4 2.5 L 0.0 0.0 z", "M1 2.5l.4 0-1.4-2.5z"),
        ("M 10 20.5 L 10.5 21.0 L 30 21.0 M 0.5 0.25 L 0.5 7", "M10 20.5l.5.5 19.5 0M.5 .2l0 6.8"),
        ("M 0 3.5", "M0 3.5"),
        ("M 1 2 C 3.0 4 5 6 7 8", "M1 2C3 4 5 6 7 8"),
    ],
)
def test_a_path_in_few_characters(drawn, kept):
    assert rounded(f'<path d="{drawn}"/>') == f'<path d="{kept}"/>'


def test_a_long_path_does_not_drift(rng):
    points = np.round(np.cumsum(rng.standard_normal((5000, 2)), axis=0), 1)
    path = rounded('<path d="M ' + " L ".join(f"{x} {y}" for x, y in points) + '"/>')
    start, way = path.split("l", 1)
    numbers = [float(number) for number in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", start + " " + way)]
    np.testing.assert_allclose(list(itertools.accumulate(numbers[::2])), points[:, 0], atol=1e-8)
    np.testing.assert_allclose(list(itertools.accumulate(numbers[1::2])), points[:, 1], atol=1e-8)


@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
def test_ranks_are_even_where_chains_mix_and_not_where_they_do_not():
    [figure] = alarm.traces_and_ranks(None)
    spread = figure.data.groupby("walk")["count"].std()
    assert (figure.data.groupby(["walk", "chain"])["count"].sum() == 1000).all()
    assert 4.0 * spread["well sized"] < min(spread["too short"], spread["too long"])
