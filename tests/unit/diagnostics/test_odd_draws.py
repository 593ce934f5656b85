"""Draws that are not finite, constant, stuck, too few or weighted: each function says what is true of them.

The table has a row for each kind of draws and each function that reads them: the words of its warning, error or
finding, or None if it must say nothing.
"""

import re
import warnings

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.study.cell import defect, problems
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
    amc.audit(trace, TARGET, None, n_audits=20, random_seed=1)


def bias(trace):
    amc.bias(trace, TARGET, None, n_audits=20, random_seed=1)


def stein(trace):
    amc.stein_discrepancy(trace, TARGET, draws=10, metric=np.eye(2))


def cell(trace):
    one = trace.isel(chain=slice(1, 2))
    return "; ".join([*problems(one), defect(one) or ""]).strip("; ")


NAN = r"theta\[b\] .*not finite.*(NaN|nan).* in chain 1, draw 50"
INFINITE = r"theta\[b\] .*not finite.*-inf.* in chain 1, draw 50"
FROM_THERE = r"theta\[a\] has 350 draws that are not finite \(first NaN in chain 1, draw 50\); theta\[b\] has 350"
STUCK = r"chain\(?s?\)? \[?1\]? never moved"
WEIGHTS = "carry weights"
TABLE = {
    ("NaN", diagnose): NAN,
    ("NaN", risk): NAN,
    ("NaN", compare): NAN,
    ("NaN", reference): NAN,
    ("NaN", audit): r"theta\[1\] is not finite \(nan\) in chain 1, draw 50",
    ("NaN", bias): r"theta\[1\] is not finite \(nan\) in chain 1, draw 50",
    ("NaN", stein): r"theta\[1\] is not finite \(nan\) in chain 1, draw 50",
    ("NaN", cell): NAN,
    ("infinite", diagnose): INFINITE,
    ("infinite", risk): INFINITE,
    ("infinite", compare): INFINITE,
    ("infinite", reference): INFINITE,
    ("infinite", stein): r"theta\[1\] is not finite \(-inf\)",
    ("infinite", cell): INFINITE,
    ("NaN to the end", diagnose): FROM_THERE,  # a sampler that failed, not padding
    ("NaN to the end", risk): FROM_THERE,
    ("NaN to the end", compare): FROM_THERE,
    ("constant", diagnose): None,
    ("constant", compare): r"the mean of theta\[b\] is off by \+2\.5 posterior sd; the sd of theta\[b\] is 0 times",
    ("constant", cell): None,
    ("stuck", diagnose): STUCK,
    ("stuck", compare): "1 of 4 chains never moved",
    ("stuck", reference): "chain 1 never moved",
    ("stuck", cell): STUCK,
    ("one draw", diagnose): "50 draws are needed, there are 1.*100 draws per chain are needed, found 1",
    ("one draw", compare): None,
    ("one draw", reference): "from 4 chains of 1 draw; it needs at least 4 draws",
    ("three draws", reference): "from 4 chains of 3 draws; it needs at least 4 draws",
    ("weight", diagnose): "not checked: the draws carry weights",
    ("weight", risk): None,
    ("weight", reference): WEIGHTS,
    ("weight", audit): WEIGHTS,
    ("weight", bias): WEIGHTS,
    ("weight", stein): WEIGHTS,
    ("log_weight", risk): None,
    ("log_weight", compare): r"the mean of theta\[.\] is off by \+0\.\d+ posterior sd, and 1 more",
    ("log_weight", reference): WEIGHTS,
    ("log_weight", audit): WEIGHTS,
    ("log_weight", bias): WEIGHTS,
    ("log_weight", stein): WEIGHTS,
    ("padded", diagnose): None,
    ("padded", risk): None,
    ("padded", compare): None,
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
        assert re.search(expected, said), said


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
