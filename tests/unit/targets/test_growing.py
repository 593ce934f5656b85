"""Targets that grow by blocks: equal to targets made of all rows at once, without a look at the old rows."""

import copy
import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.acceptance.true_bounds import checked_differences
from approxmcmc.engine.files.grown_arrays import followed_by, without_rows
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import InvalidInputError
from approxmcmc.expansion.quadratic import Quadratic
from approxmcmc.surrogate import blocks as blocks_of_surrogate
from approxmcmc.targets import compressed
from approxmcmc.targets.blocks import Blocks
from approxmcmc.targets.distinct_rows import DistinctRows
from approxmcmc.targets.predictors.family import FamilyLikelihood
from approxmcmc.targets.unchanged import NotesItsData
from tests import capabilities
from tests.capabilities import DESIGNS, FAMILIES, SOURCE

pytestmark = pytest.mark.uncompiled


def log_density(target: Any, theta: np.ndarray) -> float:
    """Return the log density of a target, by all its terms."""
    compiled = target.compile()
    return compiled.log_prior(theta) + full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs).sum()


def assert_same_posterior(found: Any, expected: Any, rng: np.random.Generator, at: Any = 0.0) -> None:
    """Compare log densities at random points, up to a constant that expansions may leave out."""
    thetas = at + 0.1 * rng.normal(size=(3, expected.variables.size))
    ours = np.array([log_density(found, theta) for theta in thetas])
    theirs = np.array([log_density(expected, theta) for theta in thetas])
    size = np.abs(theirs).max() + 1.0
    assert np.ptp(ours - theirs) <= 1e-12 * size
    if not isinstance(found, amc.ControlVariate):
        assert np.abs(ours - theirs).max() <= 1e-12 * size


# --- every family and design ---

MADE = [
    (family, design)
    for family, designs in capabilities.read().items()
    for design, works in designs.items()
    if works and design != SOURCE and family != "yours, two predictors"
]


def some(arguments: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Return the arguments of a target for some of the rows."""
    pick = {name: value for name, value in arguments.items() if name != "intercept"}
    for name, value in pick.items():
        pick[name] = value.iloc[rows].reset_index(drop=True) if hasattr(value, "iloc") else value[rows]
    return pick


def check_family(family: str, design: str, rng: np.random.Generator) -> None:
    """Append two blocks of three rows to six, and remove one of them."""
    arguments = DESIGNS[design](FAMILIES[family])
    settings = {**FAMILIES[family].settings, **{k: v for k, v in arguments.items() if k == "intercept"}}
    order = np.concatenate([np.arange(6), 6 + rng.permutation(6)])  # the first six have all categories

    def made(rows: np.ndarray) -> Any:
        return FAMILIES[family].make(**some(arguments, order[rows]), **settings)

    start = made(np.arange(6))
    grown = start.append(**some(arguments, order[6:9])).append(**some(arguments, order[9:]), block="day")
    assert grown.blocks.names == ["first", "1", "day"]
    assert grown.content_hash() not in (start.content_hash(), made(np.arange(12)).content_hash())
    assert_same_posterior(grown, made(np.arange(12)), rng)
    assert_same_posterior(grown.remove("1"), made(np.r_[:6, 9:12]), rng)
    assert_same_posterior(start, made(np.arange(6)), rng)  # unchanged


PLAIN = [model for model in MADE if model[1] == "matrix"]
OTHERS = [model for model in MADE if model[1] != "matrix"]


@pytest.mark.parametrize(("family", "design"), PLAIN)
def test_families_grow(family, design, rng):
    check_family(family, design, rng)


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "design"), OTHERS)
def test_other_designs_grow(family, design, rng):
    check_family(family, design, rng)


@pytest.mark.parametrize("offset", [False, True])
def test_several_predictors_grow(offset, rng):
    X = rng.normal(size=(30, 2))
    y = rng.normal(size=30)
    town = pd.Categorical(np.array(["Bern", "Oslo", "Rome"])[np.arange(30) % 3])

    def predictors(rows: slice) -> dict[str, Any]:
        town_of_rows = pd.Series(town[rows])
        return {"mean": {"beta": X[rows], "town": town_of_rows}, "log_scale": {"log_sigma": 1.0}}

    def offsets(rows: slice) -> dict[str, Any]:
        return {"offsets": {"mean": X[rows, 0]} if offset else None}

    def made(rows: slice) -> Any:
        return amc.targets.PredictorTarget(capabilities.log_normal, predictors(rows), y[rows], **offsets(rows))

    grown = made(slice(0, 20)).append(predictors(slice(20, 30)), y[20:], **offsets(slice(20, 30)))
    assert_same_posterior(grown, made(slice(0, 30)), rng)
    other = predictors(slice(20, 30))
    other["mean"]["town"] = pd.Series(pd.Categorical(["Lima"] * 10))
    with pytest.raises(InvalidInputError, match="categories"):
        grown.append(other, y[20:], **offsets(slice(20, 30)))


# --- random splits, with control variates, core rows, and merged rows ---


class Growing:
    """A model, its rows, and the target of any of these rows."""

    def __init__(self, kind: str, rng: np.random.Generator) -> None:
        self.kind = kind
        n = 240
        X = rng.normal(size=(n, 2))
        X[:, 1] *= 0.3
        X[3] = [0.0, 12.0]  # an influential row
        if kind == "merged":
            X = np.round(X)
        self.X = X
        self.trials = 1.0 + rng.integers(3, size=n)
        self.y = rng.binomial(self.trials.astype(int), 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(float)

    def columns(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {"X": self.X[rows], "y": self.y[rows], "trials": self.trials[rows]}

    def plain(self, rows: np.ndarray) -> Any:
        return amc.BinomialRegression(**self.columns(rows))

    def made(self, rows: np.ndarray) -> Any:
        plain = self.plain(rows)
        if self.kind == "merged":
            return compressed(plain)
        if self.kind == "plain":
            return plain
        if self.kind == "influential":
            return amc.ControlVariate(plain, always_read="auto")
        return amc.ControlVariate(plain, order=1 if self.kind == "first order" else 2)


def check_random_split(kind: str, changes: int, rng: np.random.Generator) -> Any:
    """Grow and shrink a target at random; compare it with the target of the rows that are left."""
    model = Growing(kind, rng)
    rows = {"first": np.arange(120)}
    target = model.made(rows["first"])
    if kind in ("expanded", "first order", "influential"):
        target.compile_difference_bound()
    fresh = iter(np.array_split(np.arange(120, 240), changes))
    for k in range(changes):
        if len(rows) > 2 and rng.random() < 0.4:
            gone = str(rng.choice(list(rows)))
            target = target.remove(gone)
            del rows[gone]
        else:
            rows[f"day {k}"] = next(fresh)
            target = target.append(**model.columns(rows[f"day {k}"]), block=f"day {k}")
    assert target.blocks.names == list(rows)
    expected = model.plain(np.concatenate(list(rows.values())))
    assert_same_posterior(target, expected, rng, getattr(target, "center", 0.0))
    return target


KINDS = ["plain", "merged", "expanded", "first order", "influential"]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_random_splits(kind, rng):
    for _ in range(2):
        target = check_random_split(kind, 6, rng)
        if kind not in ("plain", "merged"):
            bound = checked_differences(target)  # raises if a term exceeds its bound
            assert np.array_equal(np.sort(bound.classes.rows), np.arange(target.n_obs))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_splits(kind, rng):
    for _ in range(20):
        check_random_split(kind, int(rng.integers(2, 51)), rng)


def test_what_was_known_stays_as_if_all_rows_had_come_at_once(rng):
    model = Growing("expanded", rng)
    split = model.made(np.arange(200))
    split.compile_difference_bound()
    grown = split.append(**model.columns(np.arange(200, 240)))
    whole = amc.ControlVariate(model.plain(np.arange(240)), at=split.center)
    assert np.allclose(grown.laplace.mode, whole.laplace.mode, rtol=1e-12)
    assert np.allclose(grown.laplace.cov, whole.laplace.cov, rtol=1e-12)
    assert np.array_equal(grown._numbers, whole._numbers)
    light = model.plain(np.arange(200, 240))
    assert grown.compile_difference_bound().rates[:200].tolist() == split.compile_difference_bound().rates.tolist()
    assert light.n_obs == 40


def test_old_rows_are_not_read(rng, monkeypatch):
    model = Growing("expanded", rng)
    split = model.made(np.arange(200))
    split.compile_difference_bound()
    expected = split.append(**model.columns(np.arange(200, 240)))
    known = copy.copy(split)
    monkeypatch.setattr(NotesItsData, "refuse_changed_data", lambda self, name="": None)
    for array in (known.target.design.X, known.target.responses[0]):
        array.flags.writeable = True
        array[:] = np.nan  # a sum or a bound that reads an old row is NaN
    grown = known.append(**model.columns(np.arange(200, 240)))
    assert np.array_equal(grown.laplace.mode, expected.laplace.mode)
    assert np.array_equal(grown.compile_difference_bound().rates, expected.compile_difference_bound().rates)
    assert np.isfinite(grown.remove("1").laplace.mode).all()
    assert np.isnan(grown.target.design.X[:200]).all()


# --- planted bugs ---


def test_a_block_that_counts_twice_is_found(rng, monkeypatch):
    model = Growing("expanded", rng)
    split = model.made(np.arange(200))
    day = model.columns(np.arange(200, 240))
    grown = split.append(**day)
    with pytest.raises(InvalidInputError, match="would count twice"):
        grown.append(**day, block="again")
    monkeypatch.setattr(Blocks, "with_block", lambda self, block: Blocks((*self, block)))
    twice = grown.append(**day, block="again")
    with pytest.raises(AssertionError):
        assert_same_posterior(twice, model.plain(np.arange(240)), rng, split.center)


def test_a_bound_of_old_rows_on_larger_new_ones_is_found(rng, monkeypatch):
    model = Growing("plain", rng)
    day = model.columns(np.arange(200, 240))
    more = {**day, "trials": day["trials"] + 50.0}
    target = model.plain(np.arange(200))
    grown = target.append(**more)
    assert grown.likelihood.slope_bound == 53.0 / 3.0 * target.likelihood.slope_bound
    checked_differences(grown)
    monkeypatch.setattr(FamilyLikelihood, "derivative_bounds", lambda self, order, y: np.full(len(y[0]), 3.0))
    with pytest.raises(InvalidInputError, match="the bound of the terms"):
        checked_differences(target.append(**more))


def test_a_forgotten_weight_is_found(rng, monkeypatch):
    set_rows = DistinctRows._set_rows

    def forgetful(self, design, responses, weights=None):
        set_rows(self, design, responses, np.minimum(weights, 1.0))

    monkeypatch.setattr(DistinctRows, "_set_rows", forgetful)
    with pytest.raises(AssertionError):
        check_random_split("merged", 4, rng)


def test_a_forgotten_sum_is_found(rng, monkeypatch):
    def first_only(parts: list[Quadratic]) -> Quadratic:
        return parts[0]

    monkeypatch.setattr("approxmcmc.surrogate.control_variate.sum_of", first_only)
    with pytest.raises(AssertionError):
        check_random_split("expanded", 4, rng)
    assert blocks_of_surrogate.total is not first_only


# --- rows that do not fit ---

TABLE = pd.DataFrame({"age": np.arange(12.0) / 12.0, "town": ["Bern", "Oslo", "Rome"] * 4})
Y = np.tile([0.0, 1.0], 6)
logistic = functools.partial(amc.LogisticRegression, TABLE, Y, intercept=True)


@pytest.mark.parametrize(
    ("make", "rows", "message"),
    [
        (logistic, {"X": TABLE.replace("Oslo", "Lima"), "y": Y}, "'Lima' in row 1, which no row"),
        (logistic, {"X": TABLE[["age"]], "y": Y}, "lack the columns"),
        (logistic, {"X": TABLE, "y": 2.0 * Y - 1.0}, "coded"),
        (logistic, {"X": TABLE, "y": Y[:5]}, "12 rows, and y has 5"),
        (logistic, {"X": TABLE, "y": Y, "offset": Y}, "no offset"),
        (functools.partial(logistic, offset=Y), {"X": TABLE, "y": Y}, "need offset="),
        (
            functools.partial(amc.SoftmaxRegression, TABLE[["age"]], np.arange(12) % 3),
            {"X": TABLE[["age"]], "y": np.full(12, 7)},
            "class 7",
        ),
        (
            functools.partial(amc.OrderedRegression, TABLE[["age"]], np.arange(12) % 3),
            {"X": TABLE[["age"]], "y": np.full(12, 3)},
            "has no cutpoint",
        ),
        (
            functools.partial(amc.LogisticRegression, np.ones((4, 1), np.float32), Y[:4]),
            {"X": np.full((4, 1), 0.1), "y": Y[:4]},
            "would round",
        ),
        (functools.partial(amc.LinearRegression, np.ones((4, 1)), Y[:4]), {"X": np.ones((4, 1)), "y": Y[:3]}, "shape"),
    ],
)
def test_rows_that_do_not_fit(make, rows, message):
    with pytest.raises(InvalidInputError, match=message):
        make().append(**rows)


def test_names_of_blocks():
    target = logistic().append(TABLE.iloc[:3], Y[:3], block="Monday")
    with pytest.raises(InvalidInputError, match="there is a block 'Monday' already"):
        target.append(TABLE.iloc[3:6].reset_index(drop=True), Y[3:6], block="Monday")
    with pytest.raises(InvalidInputError, match="there is no block 'Tuesday'"):
        target.remove("Tuesday")
    with pytest.raises(InvalidInputError, match="only block"):
        logistic().remove("first")
    assert target.append(TABLE.iloc[3:6].reset_index(drop=True), Y[3:6]).blocks.names == ["first", "Monday", "2"]


def test_a_column_that_was_constant_until_now(rng):
    X = np.column_stack([np.ones(40), np.zeros(40)])
    X[30:, 1] = rng.normal(size=10)
    y = (rng.random(40) < 0.5).astype(float)
    grown = amc.LogisticRegression(X[:30], y[:30]).append(X[30:], y[30:])
    assert_same_posterior(grown, amc.LogisticRegression(X, y), rng)
    outcome = rng.normal(size=40)
    linear = amc.LinearRegression(X[:30], outcome[:30]).append(X[30:], outcome[30:])
    assert_same_posterior(linear, amc.LinearRegression(X, outcome), rng)


# --- arrays ---


def test_arrays_grow_in_place_and_never_change():
    first = np.arange(6.0).reshape(3, 2)
    grown = followed_by(first, np.ones((1, 2)))
    longer = followed_by(grown, np.full((2, 2), 2.0))
    other = followed_by(grown, np.full((2, 2), 3.0))
    assert np.shares_memory(grown, longer)
    assert not np.shares_memory(grown, other)
    assert longer[4:].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert other[4:].tolist() == [[3.0, 3.0], [3.0, 3.0]]
    for _ in range(20):  # beyond the room of the buffer
        longer = followed_by(longer, np.full((1, 2), 4.0))
    assert longer[:4].tolist() == [*first.tolist(), [1.0, 1.0]]
    assert (longer[6:] == 4.0).all()
    window = without_rows(longer, 0, 3)
    assert np.shares_memory(window, longer)
    assert followed_by(window, np.zeros((1, 2)))[-1].tolist() == [0.0, 0.0]
    assert without_rows(longer, 1, 4).tolist() == [longer[0].tolist(), *longer[4:].tolist()]
