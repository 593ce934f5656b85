"""Draws that are not finite, constant, stuck, too few, repeated or weighted: each function says what is true of them.

The table has a row for each kind of draws and each function that reads them: the words of its warning, error or
finding, or None if it must say nothing.
"""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.diagnostics.copies import LEAST_MOVES, copies_sentence
from approxmcmc.errors import ApproxMCMCError, ApproxMCMCWarning
from approxmcmc.study.cell import defect, problems
from approxmcmc.study.report import page_warnings
from tests.fakes import fake_trace

LABELS = ["a", "b"]
CHAINS = 4
DRAWS = 400


def draws(seed=1, chains=CHAINS, n=DRAWS):
    return np.random.default_rng(seed).normal(size=(chains, n, 2))


def changed(place, value):
    values = draws()
    values[place] = value
    return fake_trace(values, name="theta", labels=LABELS)


def weighted(name):
    """Draws of N(0, 1) with the weights of N(0.5, 1): means of 0.5."""
    values = draws(n=4000)
    logs = 0.5 * values.sum(axis=2)
    return fake_trace(
        values, name="theta", labels=LABELS, stats={name: np.exp(logs) if name == "weight" else logs + 800.0}
    )


def padded():
    """Chains of 400 and 200 draws as xarray joins them, with NaN after the end of the shorter one."""
    values = draws()
    chains = [
        fake_trace(values[k : k + 1, : 200 if k == 2 else DRAWS], name="theta", labels=LABELS) for k in range(CHAINS)
    ]
    groups = {
        name: xr.concat(
            [chain[name].to_dataset().assign_coords(chain=[k]) for k, chain in enumerate(chains)], "chain", join="outer"
        )
        for name in ("posterior", "sample_stats")
    }
    return xr.DataTree.from_dict(groups)


def copied():
    """Four chains, the second a copy of the first, as of a sampler that ignores its seed."""
    values = draws()
    values[1] = values[0]
    return fake_trace(values, name="theta", labels=LABELS)


KINDS = {
    "NaN": lambda: changed((1, 50, 1), np.nan),
    "infinite": lambda: changed((1, 50, 1), -np.inf),
    "NaN to the end": lambda: changed((1, slice(50, None)), np.nan),
    "constant": lambda: changed((slice(None), slice(None), 1), 2.5),
    "stuck": lambda: changed((1, slice(None)), 0.25),
    "one draw": lambda: fake_trace(draws(n=1), name="theta", labels=LABELS),
    "three draws": lambda: fake_trace(draws(n=3), name="theta", labels=LABELS),
    "weight": lambda: weighted("weight"),
    "log_weight": lambda: weighted("log_weight"),
    "padded": padded,
    "copied chain": copied,
    "repeated draws": lambda: fake_trace(np.repeat(draws(n=100), 4, axis=1), name="theta", labels=LABELS),
}
REFERENCE = fake_trace(draws(seed=100, n=2000), name="theta", labels=LABELS)


def add_gradient(theta, data, i, out):
    out -= theta


def add_prior_gradient(theta, out):
    pass


TARGET = amc.FunctionTarget(
    lambda theta, data, i: -0.5 * np.sum(theta**2),
    lambda theta: 0.0,
    data=np.ones(1),
    n_obs=1,
    dim=2,
    grad_loglik=add_gradient,
    grad_logprior=add_prior_gradient,
)


def diagnose(trace):
    return "; ".join(finding for finding in amc.diagnose(trace).query("verdict != 'ok'")["finding"])


def risk(trace):
    amc.risk(trace, REFERENCE, n_bootstrap=10)


def compare(trace):
    return amc.compare_samplers({"it": trace}, REFERENCE, n_bootstrap=10)["warning"]["it"]


def reference(trace):
    amc.risk(REFERENCE, trace, n_bootstrap=10)


def audit(trace):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The coordinates of 'theta' are matched by position")
        warnings.filterwarnings("ignore", "1 problem.*\\n.*20 steps were audited .* too few")
        amc.audit(trace, TARGET, None, n_audits=20, random_seed=1)


def bias(trace):
    warnings.filterwarnings("ignore", "The coordinates of 'theta' are matched by position")
    found = amc.bias(trace, TARGET, None, n_audits=20, random_seed=1)
    return "" if found.attrs["problems"] == "" else f"{found.attrs['verdict']}: {found.attrs['problems']}"


def stein(trace):
    amc.stein_discrepancy(trace, TARGET, draws=10, metric=np.eye(2))


def as_trace(trace):
    """It changes no draw and no record, and judges none."""
    same = amc.as_trace(trace)
    for group in ("posterior", "sample_stats"):
        xr.testing.assert_identical(same[group].to_dataset(), trace[group].to_dataset())


def cost(trace):
    """Each real draw took 1 s, touched 10 data in one decision, and was accepted with probability 1/2."""
    table = amc.cost_summary(trace)
    real = (~np.isnan(trace["sample_stats"]["perf_counter_diff"])).sum("draw").to_numpy()
    assert table["draws"].tolist() == table["seconds"].tolist() == [*real, real.sum()]
    assert (table["acceptance_rate"] == 0.5).all()
    assert (table["seconds_per_draw"] == 1.0).all()
    assert (table["data_fraction"] == 0.1).all()


def plots(trace):
    """The curves are those of `risk`; the cost is that of the decisions."""
    curves = amc.risk(trace, REFERENCE, n_bootstrap=10)
    amc.plot_risk({"it": curves}, backend="none")
    amc.plot_cost({"it": trace}, backend="none")


def cell(trace):
    one = trace.isel(chain=slice(1, 2))
    return "; ".join([*problems(one), defect(one) or ""]).strip("; ")


NAN = r"theta\[b\] .*not finite.*(NaN|nan).* in chain 1, draw 50"
INFINITE = r"theta\[b\] .*not finite.*-inf.* in chain 1, draw 50"
FROM_THERE = r"theta\[a\] has 350 draws that are not finite \(first NaN in chain 1, draw 50\); theta\[b\] has 350"
PADDING = r"theta\[.\] is not finite \(nan\) in chain 2, draw 200"  # refused, with the way to cut the chains
STUCK = r"chain\(?s?\)? \[?1\]? never moved"
COPIED = "chain 1 has the same draws as chain 0"
TOO_FEW = "must have at least 20"
WEIGHTS = "carry weights"
FUNCTIONS = (diagnose, risk, compare, reference, audit, bias, stein, cost, plots, as_trace, cell)
# In the order of FUNCTIONS. None: nothing is said, because the numbers are right.
CELLS = {
    "NaN": (
        *(NAN, NAN, NAN, NAN),
        *[r"theta\[1\] is not finite \(nan\) in chain 1, draw 50"] * 3,
        *(None, NAN, None, NAN),
    ),
    "infinite": (
        *(INFINITE, INFINITE, INFINITE, INFINITE),
        *[r"theta\[1\] is not finite \(-inf\) in chain 1, draw 50"] * 3,
        *(None, INFINITE, None, INFINITE),
    ),
    "NaN to the end": (  # a sampler that failed, not padding
        *(FROM_THERE, FROM_THERE, FROM_THERE),
        *[r"theta\[.\] is not finite \(nan\) in chain 1, draw 50"] * 4,
        *(None, FROM_THERE, None, FROM_THERE),
    ),
    "constant": (
        *(None, None),
        r"the mean of theta\[b\] is off by \+2\.5 posterior sd; the sd of theta\[b\] is 0 times",
        *(None, None, None, None, None, None, None, None),
    ),
    "stuck": (
        *(STUCK, None, "1 of 4 chains never moved", "chain 1 never moved"),
        *(STUCK, "cannot be judged: movement", None, None, None, None, STUCK),
    ),
    "one draw": (
        *("50 draws are needed, there are 1.*100 draws per chain are needed, found 1", None, None),
        *("from 4 chains of 1 draw; it needs at least 4 draws", None, TOO_FEW, None, None, None, None, None),
    ),
    "three draws": (
        *("50 draws are needed, there are 3.*100 draws per chain are needed, found 3", None, None),
        *("from 4 chains of 3 draws; it needs at least 4 draws", None, TOO_FEW, None, None, None, None, None),
    ),
    "weight": (
        *("not checked: the draws carry weights", None),
        r"the mean of theta\[.\] is off by \+0\.\d+ posterior sd, and 1 more mean differs",
        *(WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS, None, None, None, None),
    ),
    "log_weight": (
        *(None, None, r"the mean of theta\[.\] is off by \+0\.\d+ posterior sd, and 1 more mean differs"),
        *(WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS, None, None, None, None),
    ),
    "padded": (None, None, None, PADDING, PADDING, PADDING, PADDING, None, None, None, None),
    "copied chain": (
        *(COPIED, COPIED, COPIED, COPIED, COPIED, "cannot be judged: copies"),
        *(None, None, COPIED, None, None),  # a cell is one chain; the page compares cells
    ),
    "repeated draws": (
        *("tail ESS is below 400 .* theta\\[b\\] 298", None, None, None),
        *("tail ESS is below 400", "cannot be judged: R-hat", None, None, None, None, None),
    ),
}
TABLE = {
    (kind, function): cell for kind, cells in CELLS.items() for function, cell in zip(FUNCTIONS, cells, strict=True)
}


def words(function, kind):
    """Return all that a function says: result, warnings, error."""
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said.append(function(KINDS[kind]()) or "")
        except ApproxMCMCError as error:
            said.append(str(error))
    return " | ".join([*said, *(str(warning.message) for warning in caught)]).strip(" |")


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "function"), TABLE, ids=lambda value: getattr(value, "__name__", value))
def test_each_function_says_what_is_true(kind, function):
    expected = TABLE[kind, function]
    said = words(function, kind)
    if expected is None:
        assert said == ""
    else:
        assert re.search(expected, said, re.DOTALL), said


def test_the_table_has_each_kind():
    assert CELLS.keys() == KINDS.keys()


def test_copies_are_found_in_several_traces_and_of_other_lengths():
    one = draws(chains=1)
    longer = np.concatenate([one, draws(seed=2, chains=1)], axis=1)
    traces = [fake_trace(values, name="theta", labels=LABELS) for values in (draws(seed=3, chains=2), one, longer)]
    posteriors = [trace["posterior"].to_dataset() for trace in traces]
    assert copies_sentence(posteriors) == "chain 0 of trace 2 has the same draws as chain 0 of trace 1"
    with pytest.warns(ApproxMCMCWarning, match="Risk over copies"):
        amc.risk(traces[1:], REFERENCE, n_bootstrap=10)


@pytest.mark.parametrize("kind", ["coins", "stuck", "counts"])
def test_equal_chains_that_chance_explains_are_no_copies(kind):
    """Two chains that rest at their start, that have hardly moved, or whose states are counts."""
    values = {"coins": np.arange(LEAST_MOVES) % 2.0, "stuck": np.ones(400), "counts": np.arange(400) % 2}[kind]
    posterior = xr.Dataset({"x": (("chain", "draw"), np.stack([values, values]))})
    assert copies_sentence([posterior]) == ""


def test_the_error_of_a_reference_counts_repeated_draws_once():
    """Each of 500 draws four times: the error of 500 draws, which is twice that of 2000."""

    def error(values):
        trace = fake_trace(values, name="theta", labels=LABELS)
        return np.sqrt(amc.risk(REFERENCE, trace, n_bootstrap=10)["reference_mcse_sq"])

    once = draws(seed=3, n=500)
    np.testing.assert_allclose(error(np.repeat(once, 4, axis=1)) / error(once), 1.0, atol=0.1)


def test_the_page_names_settings_whose_replicates_are_copies():
    """Cells are single chains, so only the page can compare them."""
    one = fake_trace(draws(chains=1), name="theta", labels=LABELS)
    other = fake_trace(draws(seed=2, chains=1), name="theta", labels=LABELS)
    contest = SimpleNamespace(target="toy", traces={"mine": [one, one], "exact": [one, other]})
    [sentence] = page_warnings.copies_of_replicates([contest])
    assert sentence.startswith("Replicates of mine on toy have the same draws")


def test_other_parameters_keep_their_numbers_beside_one_that_is_not_finite():
    clean = amc.risk(fake_trace(draws(), name="theta", labels=LABELS), REFERENCE, n_bootstrap=10)
    with pytest.warns(amc.errors.ApproxMCMCWarning, match="not finite"):
        spoiled = amc.risk(KINDS["NaN"](), REFERENCE, n_bootstrap=10)
    xr.testing.assert_equal(clean.sel(estimand="theta[a]"), spoiled.sel(estimand="theta[a]"))
    known = spoiled["risk"].sel(estimand="theta[b]").notnull()
    assert (known == (spoiled["time"] < 51)).all()


@pytest.mark.parametrize("kind", ["weight", "log_weight"])
def test_weights_and_log_weights_give_the_weighted_mean(kind):
    shifted = fake_trace(0.5 + draws(seed=100, n=4000), name="theta", labels=LABELS)
    found = amc.risk(KINDS[kind](), shifted, n_bootstrap=10)["risk"].isel(time=-1)
    assert (abs(found) < 0.01).all()  # .25 if the weights are ignored


@pytest.mark.thorough
def test_a_padded_chain_counts_until_its_end():
    """As the same chains in traces of their own."""
    whole = padded()
    pieces = [whole.isel(chain=[2], draw=slice(None, 200)), whole.isel(chain=[0, 1, 3])]
    apart = amc.risk(pieces, REFERENCE, n_bootstrap=10, grid=[100.0, 200.0])
    xr.testing.assert_equal(amc.risk(whole, REFERENCE, n_bootstrap=10, grid=[100.0, 200.0]), apart)
    assert amc.risk(whole, REFERENCE, n_bootstrap=10, grid=[300.0])["risk"].isnull().all()


@pytest.mark.parametrize(
    ("seconds", "budget", "words"),
    [
        (1000.0, None, r"no draw within the budget of 400 s: the last chain has its first draw after 1e\+03 s"),
        (0.5, 300.0, "a chain ended after 200 s, before the budget of 300 s was used"),
    ],
)
def test_a_comparison_says_why_a_run_has_no_average(seconds, budget, words):
    runs = {
        name: fake_trace(draws(), name="theta", labels=LABELS, seconds_per_draw=each)
        for name, each in {"fast": 1.0, "other": seconds}.items()
    }
    table = amc.compare_samplers(runs, REFERENCE, budget=budget, n_bootstrap=10)
    assert re.search(words, table["warning"]["other"])
