"""Public functions on input of every kind: an answer that is right, or a sentence that says what is wrong.

Data that say the same in another form (strided, read-only, in columns, of another type) give the very same target. What
cannot be used is refused by an error of the package, never by one from inside that names neither piece nor argument. A
hundred cases run by default; a thousand with the mark `faults`.
"""

import contextlib
import dataclasses
import inspect
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import approxmcmc as amc
from approxmcmc.contracts import Component
from approxmcmc.diagnostics import chatterjee_diaconis_bound
from approxmcmc.errors import ApproxMCMCError
from tests.fakes import fake_trace
from tests.models import logistic
from tests.unit.contracts.test_components import COMPONENTS

pytestmark = pytest.mark.recompiles
CASES = pytest.mark.parametrize("cases", [25, pytest.param(250, marks=pytest.mark.faults)])
TARGET = logistic(12, 2)
SAMPLER = amc.MetropolisHastings(amc.RandomWalk(0.3), amc.SequentialTTest(0.2, 4))
JUNK = (
    None, True, 0, -1, 1.5, 10**30, -math.inf, math.nan, "", "auto", "\x00", b"x", 1j, (), [], {}, [[]], {"a": 1},
    {1, 2},
    np.nan, np.zeros(0), np.zeros((0, 2)), np.zeros((2, 2)), np.array("x"), np.array([1, "a"], dtype=object),
    np.datetime64("2020-01-01"), pd.Series([1.0, None]), pd.DataFrame({"a": pd.Categorical(["x", "y"])}), object(), len,
    SAMPLER, TARGET, amc.RandomWalk, range(3), slice(1),
)  # fmt: skip


def fuzz(cases, check, *strategies):
    """Put so many cases to a check."""
    quiet = settings(max_examples=cases, suppress_health_check=list(HealthCheck), deadline=None)
    quiet(given(*strategies)(check))()


@contextlib.contextmanager
def answered_or_refused(*parties):
    """Let through an error of the package, or one that a note explains; it names one of the parties."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", amc.errors.ApproxMCMCWarning)
            yield
    except (ApproxMCMCError, ValueError, TypeError, OverflowError, OSError) as refusal:
        error = refusal
    else:
        return
    said = " ".join([str(error), *getattr(error, "__notes__", ())])
    names_itself = said.startswith(tuple(f"{party}:" for party in parties)) or getattr(error, "__notes__", ())
    if not (isinstance(error, (ApproxMCMCError, OSError)) or names_itself):
        raise error  # from inside
    if len(said) < 25 or not any(party in said for party in parties):
        raise AssertionError(f"{said!r} names none of {parties}") from error


# --- data ---


def log_poisson(eta, y):
    """Return the log density of a count, up to a constant."""
    return y * eta - math.exp(eta)


FORMS = {
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "columns": np.asfortranarray,
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "lists": lambda a: a.tolist(),
    "objects": lambda a: a.astype(object),
    "unaligned": lambda a: np.ndarray(a.shape, a.dtype, np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].data),
    "subclass": np.ma.masked_array,
    "matrix of pandas": lambda a: pd.DataFrame(a).to_numpy() if a.ndim == 2 else pd.Series(a).to_numpy(),
    "wide": lambda a: a.astype(np.longdouble) if a.dtype.kind == "f" else a.astype(np.int32),
}
MODELS = {
    "LogisticRegression": lambda X, y, **more: amc.targets.LogisticRegression(X, y, prior_scale=1.0, **more),
    "RobustRegression": lambda X, y, **more: amc.targets.RobustRegression(X, y, prior_scale=1.0, **more),
    "SoftmaxRegression": lambda X, y, **more: amc.targets.SoftmaxRegression(X, y, prior_scale=1.0, **more),
    "GLMTarget": lambda X, y, **more: amc.targets.GLMTarget(log_poisson, X, y, prior_scale=1.0, **more),
    "FunctionTarget": lambda X, y, **more: amc.FunctionTarget(
        lambda theta, data, i: -((theta[0] - data[0][i, 0]) ** 2), lambda theta: 0.0, data=(X, y), n_obs=9, dim=1
    ),
}


def data(seed):
    """Return nine rows that every model takes."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(9, 2)), np.arange(9) % 2


@CASES
def test_data_in_another_form_are_the_same_data(cases):
    def check(model, seed, x_form, y_form):
        X, y = data(seed)
        plain = MODELS[model](X, y)
        other = MODELS[model](FORMS[x_form](X), FORMS[y_form](y))
        assert other.content_hash() == plain.content_hash(), (model, x_form, y_form)
        kept = [np.array(a) for a in plain.compile().data]
        for ours, theirs in zip(kept, other.compile().data, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert theirs.flags.c_contiguous and theirs.flags.aligned

    forms = st.sampled_from(sorted(FORMS))
    fuzz(cases, check, st.sampled_from(sorted(MODELS)), st.integers(0, 9), forms, forms)


def spoilt(X, y, how):
    """Return data with one wrong or odd property."""
    frame = pd.DataFrame(X, columns=["a", "b"])
    return {
        "nan": lambda: (np.where(np.arange(2) == 1, np.nan, X), y),
        "inf": lambda: (X * np.inf, y),
        "empty": lambda: (X[:0], y[:0]),
        "no columns": lambda: (X[:, :0], y),
        "flat": lambda: (X[:, 0], y),
        "deep": lambda: (X[:, :, None], y),
        "short": lambda: (X, y[:-1]),
        "scalar": lambda: (X, 1),
        "strings": lambda: (X.astype(str), y),
        "labels": lambda: (X, np.where(y == 1, "yes", "no")),
        "complex": lambda: (X + 1j, y),
        "dates": lambda: (np.full(X.shape, np.datetime64("2020-01-01")), y),
        "ragged": lambda: ([[1.0, 2.0], [3.0]] * 4 + [[1.0]], y),
        "category": lambda: (frame.assign(b=pd.Categorical(["x", "y", "z"] * 3)), y),
        "missing": lambda: (frame.assign(b=pd.array([1, None] + [2] * 7, dtype="Int64")), y),
        "missing response": lambda: (frame, pd.Series([0, None] + [1] * 7, dtype="boolean")),
        "categories": lambda: (frame, pd.Series(pd.Categorical(["x", "y", "z"] * 3))),
        "negative": lambda: (X, -y),
        "fractions": lambda: (X, y + 0.5),
        "huge": lambda: (np.sign(X) * 1e308, y),
        "beyond": lambda: (X, y.astype(np.uint64) + np.uint64(2**63)),
        "masked": lambda: (np.ma.masked_less(X, 0.0), y),
        "sets": lambda: ({1, 2}, y),
        "none": lambda: (None, y),
        "nobody": lambda: (X, None),
        "a file": lambda: ("data.csv", y),
    }[how]()


SPOILT = (
    "nan", "inf", "empty", "no columns", "flat", "deep", "short", "scalar", "strings", "labels", "complex", "dates",
    "ragged", "category", "missing", "missing response", "categories", "negative", "fractions", "huge", "beyond",
    "masked", "sets", "none", "nobody", "a file",
)  # fmt: skip


@CASES
def test_data_of_no_use_are_refused_by_a_sentence(cases):
    def check(model, seed, how, names, intercept):
        X, y = spoilt(*data(seed), how)
        more = {} if model == "FunctionTarget" else {"coef_names": names, "intercept": intercept}
        with answered_or_refused(model):
            target = MODELS[model](X, y, **more)
            density = target.compile()
            theta = np.zeros(target.variables.size)
            out = np.empty(target.n_obs)
            density.log_terms(theta, density.data, np.empty(0, np.int64), 0, target.n_obs, out)
            assert not np.isnan(out).any(), (model, how)

    names = st.sampled_from([None, None, None, ["u", "v"], ["u"], "u", 3])
    fuzz(
        cases, check, st.sampled_from(sorted(MODELS)), st.integers(0, 9), st.sampled_from(SPOILT), names, st.booleans()
    )


# --- constructors of targets ---


def value_of(theta, *others):
    """Return a number, for any function of a user."""
    return 0.0


def terms_of(theta, rows):
    """Return a term of each row in a batch."""
    return np.zeros(len(rows[0]))


ROWS, BITS = data(0)
COUNTS = np.arange(9) % 4
GROUPS = np.arange(9) // 3
GRAPH = np.eye(4, k=1, dtype=int) + np.eye(4, k=-1, dtype=int)
TARGETS = amc.targets
MADE_BY = {  # arguments that each constructor takes
    "LinearRegression": (TARGETS.LinearRegression, {"X": ROWS, "y": ROWS[:, 0]}),
    "PoissonRegression": (TARGETS.PoissonRegression, {"X": ROWS, "y": COUNTS}),
    "BinomialRegression": (TARGETS.BinomialRegression, {"X": ROWS, "y": BITS, "trials": np.full(9, 3)}),
    "WeibullRegression": (TARGETS.WeibullRegression, {"X": ROWS, "y": np.exp(ROWS[:, 0])}),
    "RobustRegression": (TARGETS.RobustRegression, {"X": ROWS, "y": ROWS[:, 0]}),
    "SoftmaxRegression": (TARGETS.SoftmaxRegression, {"X": ROWS, "y": BITS}),
    "OrderedRegression": (TARGETS.OrderedRegression, {"X": ROWS, "y": np.arange(9) % 3}),
    "GLMTarget": (TARGETS.GLMTarget, {"loglik_eta": log_poisson, "X": ROWS, "y": COUNTS}),
    "GroupedTarget": (TARGETS.GroupedTarget, {"X": ROWS, "y": BITS, "groups": GROUPS, "n_nodes": 8}),
    "NormalGroups": (TARGETS.NormalGroups, {"X": ROWS, "y": ROWS[:, 0], "groups": GROUPS}),
    "GaussianMixture": (TARGETS.GaussianMixture, {"x": ROWS[:, 0]}),
    "FunctionTarget": (
        amc.FunctionTarget, {"loglik": value_of, "logprior": value_of, "data": ROWS, "n_obs": 9, "dim": 2},
    ),
    "EstimatedLikelihood": (
        TARGETS.EstimatedLikelihood, {"estimate": value_of, "logprior": value_of, "data": ROWS, "dim": 2},
    ),
    "BatchTarget": (TARGETS.BatchTarget, {"terms": terms_of, "data": ROWS, "dim": 2}),
    "BinaryMRF": (
        TARGETS.BinaryMRF, {"n_variables": 3, "indices": [[0, 1], [1, 2]], "log_tables": np.zeros((2, 2, 2))},
    ),
    "BayesianNetwork": (
        TARGETS.BayesianNetwork,
        {"tables": {"a": [0.5, 0.5], "b": [[0.5, 0.5], [0.2, 0.8]]}, "parents": {"b": ["a"]}, "evidence": None},
    ),
    "PredictorTarget": (
        TARGETS.PredictorTarget, {"loglik": log_poisson, "predictors": {"eta": {"beta": ROWS}}, "y": COUNTS},
    ),
    "ERGM": (TARGETS.ERGM, {"graph": GRAPH, "statistics": ["edges"], "prior_scale": 1.0}),
}  # fmt: skip
ARGUMENTS_OF_TARGETS = [
    (name, argument) for name, (make, _) in MADE_BY.items() for argument in inspect.signature(make).parameters
]
ODD_VALUES = [
    value for value in (*JUNK, 10**12, [None, "a"], ["a", "a"], "\ud800", {"\ud800": 1}, [None, "a"] * 4 + ["b"])
    if value is not amc.RandomWalk  # a function of the user that raises an error which names itself
]  # fmt: skip


@CASES
def test_arguments_of_constructors_of_any_kind(cases):
    def check(place, value):
        name, argument = place
        make, usual = MADE_BY[name]
        if argument == "n_nodes" and isinstance(value, int) and value > 64:
            return  # so many nodes take memory until there is none
        with answered_or_refused(name, argument):
            make(**usual | {argument: value})

    fuzz(cases, check, st.sampled_from(ARGUMENTS_OF_TARGETS), st.sampled_from(ODD_VALUES))


# --- settings ---


@CASES
def test_settings_of_any_kind(cases):
    """A component takes a setting, and is the same once it was written and read; or it names itself."""

    def check(example, place, value):
        # Two settings are looked at when they meet a target.
        fields = [field.name for field in dataclasses.fields(example) if field.name not in ("auxiliary", "at")]
        name = fields[place % len(fields)] if fields else ""
        if not name:
            return
        with answered_or_refused(type(example).__name__, name):
            made = dataclasses.replace(example, **{name: value})
            assert Component.from_dict(made.to_dict()) == made
            repr(made)

    fuzz(cases, check, st.sampled_from(COMPONENTS), st.integers(0, 20), st.sampled_from(JUNK))


ARGUMENTS = ("draws", "tune", "chains", "cores", "random_seed", "initvals", "thin", "time_limit", "target_ess",
             "max_bias", "audit_every", "checkpoint", "sampler", "target")  # fmt: skip


@pytest.mark.thorough
@CASES
def test_arguments_of_sample_of_any_kind(cases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a checkpoint may have any name

    def check(name, value, seed):
        arguments = {"target": TARGET, "sampler": SAMPLER, "draws": 4, "tune": 2, "chains": 2, "random_seed": seed}
        arguments["audit_every"] = None
        if (name == "sampler" and value is None) or (isinstance(value, int) and value > 2):
            return  # a choice takes seconds, and so many draws for ever
        with answered_or_refused(name, "sample", "initvals", "No", "folder"):
            trace = amc.sample(**arguments | {"cores": 1, "progressbar": False, "time_limit": 2.0, name: value})
            assert np.isfinite(trace["posterior"]["beta"]).all()
            assert trace["posterior"].sizes["chain"] == (value if name == "chains" else 2)

    usable = [value for value in JUNK if not isinstance(value, np.ndarray) or value.size]
    fuzz(
        cases,
        check,
        st.sampled_from(ARGUMENTS),
        st.sampled_from(usable),
        st.integers(0, 9),
    )


# --- functions of traces and of matrices ---

RNG = np.random.default_rng(0)
TRACE, GOLD = fake_trace(RNG.normal(size=(3, 20, 2))), fake_trace(RNG.normal(size=(4, 50, 2)))
T, T_HAT = np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([[0.6, 0.4], [0.4, 0.6]])
RISK = {
    "reference": GOLD, "estimands": None, "over": "time", "confidence": 0.9, "n_bootstrap": 5, "random_seed": 0,
    "include_tuning": True, "clock": None, "warmup_seconds": None,
}  # fmt: skip
CALLS = {
    "risk": (amc.risk, {**RISK, "traces": TRACE, "grid": None, "n_grid": 3, "average_over": None}),
    "compare_samplers": (
        amc.compare_samplers, {**RISK, "runs": {"a": TRACE}, "budget": None, "baseline": None, "standardize": False},
    ),
    "cost_summary": (
        amc.cost_summary, {"trace": TRACE, "confidence": 0.9, "clock": None, "warmup_seconds": None},
    ),
    "diagnose": (amc.diagnose, {"trace": TRACE}),
    "wrong_decision_rate": (
        amc.diagnostics.wrong_decision_rate, {"trace": TRACE, "sample_dims": ("chain", "draw"), "confidence": 0.9},
    ),
    "clopper_pearson": (amc.diagnostics.clopper_pearson, {"successes": 1, "trials": 3, "confidence": 0.9}),
    "importance_estimates": (amc.diagnostics.importance_estimates, {"trace": TRACE, "estimands": None}),
    "chatterjee_diaconis_bound": (
        chatterjee_diaconis_bound, {"n_draws": 100, "kl": 1.0, "tail": None, "log_weights": None, "delta": 0.5},
    ),
    "exact": (
        amc.bounds.exact,
        {"T": T, "T_hat": T_HAT, "delta_max": None, "n_decisions": None, "constants": None, "n_steps": 5},
    ),
    "over_time": (amc.bounds.over_time, {"T": T, "T_hat": T_HAT, "start": None, "n_steps": 5}),
    "mitrophanov_factor": (amc.bounds.mitrophanov_factor, {"C": 1.0, "rho": 0.5, "distance": "norm"}),
    "long_run_risk": (
        amc.bounds.long_run_risk,
        {"T": T, "settings": {1: T_HAT}, "values": [0.0, 1.0], "costs": {1: 1.0}, "budgets": [1.0], "knob": "setting"},
    ),
    "load": (amc.load, {"path": "nowhere.nc"}),
    "save": (amc.save, {"trace": TRACE, "path": "trace.nc"}),
}  # fmt: skip
PLACES = [(name, argument) for name, (_, arguments) in CALLS.items() for argument in arguments]


@CASES
def test_arguments_of_functions_of_any_kind(cases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(place, value):
        (name, argument), usual = place, CALLS[place[0]]
        if isinstance(value, int) and value > 10:
            return  # so many points or resamples take for ever
        with answered_or_refused(name, argument, "trace", "replicates", "mitrophanov_factor"):
            usual[0](**usual[1] | {argument: value})

    fuzz(cases, check, st.sampled_from(PLACES), st.sampled_from(JUNK))


@pytest.mark.parametrize(
    ("name", "argument"), [("diagnose", "trace"), ("cost_summary", "trace"), ("risk", "traces"), ("risk", "reference")]
)
def test_whatever_is_no_trace_is_refused_by_the_name_of_the_argument(name, argument):
    """One reader of traces serves all functions, and each must say which of its arguments is wrong."""
    function, usual = CALLS[name]
    for value in JUNK:
        with answered_or_refused(argument, "trace"):
            function(**usual | {argument: value})


@CASES
def test_matrices_in_another_form_have_the_same_bounds(cases):
    usual = amc.bounds.exact(T, T_HAT, n_steps=5)

    def check(form, other_form):
        found = amc.bounds.exact(FORMS[form](T), FORMS[other_form](T_HAT), n_steps=5)
        assert found.identical(usual)

    fuzz(cases, check, st.sampled_from(sorted(FORMS)), st.sampled_from(sorted(FORMS)))
