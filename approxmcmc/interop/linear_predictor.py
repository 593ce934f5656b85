"""Find the linear predictors through which the rows of a model depend on theta, and evaluate its terms from them.

    y_i ~ F(x_i1' theta, ..., x_iK' theta),

for any names of the model's variables: `X @ beta`, an intercept, `effect[group]`, offsets, and sums of these, and
parameters that all rows share, such as a scale. If K = 1 and the library knows the distribution, it uses its own terms;
else PyTensor compiles them as functions of the predictors. Either way they are compared with PyMC's, all at once and in
random groups of rows.

Normal outcomes with an unknown scale have two predictors, the mean and the logarithm of the scale:

    y_ij ~ N(mu_ij(theta), (s_ij exp(c_j' theta))^2),

such as ``pm.Normal("y", X @ beta + a, sigma)`` with a positive sigma, which is sampled as log sigma; ``sigma * s`` with
known s, a precision, or 1 / sqrt of one. That the logarithm of the scale is affine follows from its operations; testing
it at some points would not prove it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledTarget
from approxmcmc.families import FORMS
from approxmcmc.families.family import Family
from approxmcmc.families.normal import NORMAL
from approxmcmc.interop.attempts import NotPossibleError, Reason, attempt
from approxmcmc.interop.comparison import ROUNDING, compare
from approxmcmc.interop.graph_likelihood import GraphLikelihood
from approxmcmc.interop.law import Graphs, LawOfRows, distribution_of, law_of, law_of_observed
from approxmcmc.interop.model import ModelOfPyMC, TargetOfPyMC
from approxmcmc.interop.predictors import (
    AFFINE,
    CONSTANT,
    LOG_AFFINE,
    Predictors,
    Quantity,
    design_of,
    find_predictors,
    kinds,
)
from approxmcmc.interop.prior import prior_of
from approxmcmc.interop.rows import random_groups
from approxmcmc.interop.walk import arrays_at, evaluate, in_python
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.predictors.closed_form import NormalLikelihood, OrderedLikelihood, SoftmaxLikelihood
from approxmcmc.targets.predictors.design import Design, Predictor, dense_design
from approxmcmc.targets.predictors.family import FamilyLikelihood, ShapeLikelihood
from approxmcmc.targets.predictors.likelihood import RowLikelihood
from approxmcmc.targets.regression import Regression

POINTS = 3  # points at which terms are compared with PyMC's
DIGITS = 12  # of the weights of log scales, most of which are 1


class PredictorsOfPyMC(TargetOfPyMC, Regression):
    """A regression, found in a PyMC model."""

    def __init__(
        self,
        source: ModelOfPyMC,
        design: Design,
        likelihood: RowLikelihood,
        responses: tuple[np.ndarray, ...],
        weights: np.ndarray | None = None,
    ) -> None:
        self.source = source
        self.likelihood = likelihood
        self._set_rows(design, responses, weights)

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, after checking that the model's data are unchanged."""
        self.source.refuse_changed_data()
        return super().compile()


class RowsOfFamily(NamedTuple):
    """Rows of a family of the library, and graphs of theta, which are affine: the predictor, with offsets in it.

    `shape` is the known shape that all rows share, 1 if the family has none. It is None if it is a parameter or differs
    between rows; then `log_shape` is its logarithm, a second predictor. `size` holds the trials of the rows, `weights`
    their known weights.
    """

    family: Family
    predictor: Any
    shape: float | None = 1.0
    log_shape: Any = None
    size: np.ndarray | None = None
    weights: np.ndarray | None = None

    @property
    def quantities(self) -> list[Quantity]:
        """The predictors of the likelihood."""
        graphs = [self.predictor] if self.shape is not None else [self.predictor, self.log_shape]
        return [Quantity(one, 0 if one.ndim else None, 1) for one in graphs]


def structured_target(source: ModelOfPyMC) -> PredictorsOfPyMC:
    """Return the model as a target whose terms are functions of a few linear predictors.

    Raises
    ------
    NotPossibleError
        When the rows depend on theta in another way; the message says what was found instead.
    """
    rows = rows_of_family(source)
    predictors = attempt(functools.partial(find_predictors, source), source.faults)
    if isinstance(predictors, Reason):
        if rows is None:
            raise predictors.again()
        return _checked(source, lambda: _of_family(source, design_of(source, rows.quantities), rows))
    forms: list[Callable[[], PredictorsOfPyMC]] = []
    if rows is not None and rows.shape is not None and predictors.design.n_predictors == 1:
        forms.append(lambda: _of_family(source, predictors.design, rows))
    if rows is not None:  # an offset is added outside of the predictor found, or an exposure is a factor of the mean
        forms.append(lambda: _of_family(source, design_of(source, rows.quantities), rows))
    forms.append(lambda: _as_classes(source, predictors))
    forms.append(lambda: _as_normal_rows(source, predictors))
    for form in forms:
        target = attempt(functools.partial(_checked, source, form), source.faults)
        if not isinstance(target, Reason):
            return target
    return _checked(source, lambda: _as_graph(source, predictors))


def _as_normal_rows(source: ModelOfPyMC, predictors: Predictors) -> PredictorsOfPyMC:
    """Return the target of normal outcomes with means and log scales as predictors."""
    law = law_of_observed(source)
    design = None if law is None else normal_design(source, predictors, law.operation, law.parameters)
    if law is None or design is None:
        raise NotPossibleError("its rows are not normal with an affine mean and log scale")
    weights = law.weights
    Y = np.asarray(source.rows.observed[0], dtype=np.float64).reshape(source.rows.n_rows, -1)
    return PredictorsOfPyMC(source, design, NormalLikelihood(Y.shape[1]), (np.ascontiguousarray(Y),), weights)


def _checked(source: ModelOfPyMC, form: Callable[[], PredictorsOfPyMC]) -> PredictorsOfPyMC:
    """Return the target of a form with prior and names of the model, after comparing its terms with the model's."""
    target = form()
    target.prior = prior_of(source)
    target.variables = source.describe()
    target.omitted_constants = _compared(source, target)
    return target


class LawAndWeights(NamedTuple):
    """The law of the rows of a model as graphs of theta, and their known weights or None."""

    law: LawOfRows
    weights: np.ndarray | None


def _law(source: ModelOfPyMC) -> LawAndWeights | None:
    """Return the law of the rows of a model; None if it is of no family of the library.

    The model must have one observed variable with an axis of rows only.
    """
    found = law_of_observed(source)
    if found is None or source.rows.variables[0].ndim != 1:
        return None
    if distribution_of(found.operation) not in {form.distribution for form in FORMS}:
        return None
    law = law_of(found.operation, found.parameters, Graphs({source.theta}))
    return None if isinstance(law, str) else LawAndWeights(law, found.weights)


def rows_of_family(source: ModelOfPyMC) -> RowsOfFamily | None:
    """Return the library's family for the rows of a model, with their predictor, else None.

    The predictor must be affine in theta, and so must the logarithm of a shape that is a parameter. Known positive
    factors of a mean are offsets. Normal rows of unknown scale are left to `normal_design`.
    """
    found = _law(source)
    if found is None:
        return None
    law, weights = found
    family = law.family
    predictor = law.predictor
    if family is None or predictor is None or kinds([predictor], source.theta).get(predictor) != AFFINE:
        return None
    y = source.rows.observed[0]
    size = None
    if law.trials is not None:
        size = np.array(np.broadcast_to(evaluate(law.trials), y.shape), dtype=np.float64)
    if not np.all(family.fits(np.asarray(y, dtype=np.float64), np.ones(y.shape) if size is None else size)):
        return None
    if law.shape_product is None:
        return RowsOfFamily(family, predictor, size=size, weights=weights)
    if law.shape_product.is_known:
        values = np.unique(evaluate(law.shape_product.graph)).astype(np.float64)
        if values.size == 1:
            known = float(values[0])
            return RowsOfFamily(family, predictor, known, weights=weights) if known > 0.0 else None
    log_shape = law.shape_product.logarithm
    if family is NORMAL or log_shape is None:
        return None
    if kinds([log_shape], source.theta).get(log_shape, CONSTANT) not in (AFFINE, CONSTANT):
        return None
    return RowsOfFamily(family, predictor, None, log_shape, weights=weights)


def _of_family(source: ModelOfPyMC, design: Design, rows: RowsOfFamily) -> PredictorsOfPyMC:
    """Return a target with the library's own terms: a plain design matrix, or one with codes or offsets."""
    family = rows.family
    y = np.asarray(source.rows.observed[0], dtype=np.float64)
    if rows.shape is None:
        return PredictorsOfPyMC(source, design, ShapeLikelihood(family), (y,), rows.weights)
    shape = rows.shape
    matrix = design.matrix()
    if matrix is not None:
        if family is NORMAL:  # in units of the scale
            matrix = matrix / shape
            y = checked_array(y / shape, "y")
            shape = 1.0
        design = dense_design(checked_array(matrix, "X"))
    largest = None if rows.size is None else float(rows.size.max())
    likelihood = FamilyLikelihood(family, shape, largest_size=largest)
    response = y if rows.size is None else y + 1j * rows.size
    target = PredictorsOfPyMC(source, design, likelihood, (response,), rows.weights)
    target.terms_are_concave = family.is_concave
    return target


def _as_classes(source: ModelOfPyMC, predictors: Predictors) -> PredictorsOfPyMC:
    """Return the target of categorical rows, ordered or with a predictor for each class.

    One of the predictors of K classes may be known, as 0. If the rows depend on theta through fewer, PyTensor's terms
    of these cost less.
    """
    read = _law(source)
    if read is None or read.law.family is not None:
        raise NotPossibleError("its rows are not classes")
    law, weights = read
    likelihood: RowLikelihood
    if law.cutpoints is not None:
        n_classes = 1 + _columns(source, law.cutpoints)
        likelihood = OrderedLikelihood(n_classes)
        quantities = [Quantity(law.predictors[0], 0, 1), Quantity(law.cutpoints, None, n_classes - 1)]
    else:
        n_classes = _columns(source, law.logits)
        likelihood = SoftmaxLikelihood(n_classes)
        quantities = [Quantity(law.logits, 0, n_classes)]
        if predictors.design.n_predictors < n_classes - 1:
            raise NotPossibleError("its rows depend on fewer predictors than classes")
    graphs = [one.variable for one in quantities]
    kind = kinds(graphs, source.theta)
    y = np.asarray(source.rows.observed[0]).astype(np.int64)
    if any(kind.get(one) != AFFINE for one in graphs) or not np.all((y >= 0) & (y < n_classes)):
        raise NotPossibleError("its predictors of classes are not affine, or a row is of no class")
    return PredictorsOfPyMC(source, design_of(source, quantities), likelihood, (y,), weights)


def _columns(source: ModelOfPyMC, graph: Any) -> int:
    """Return the length of the last axis of a graph of theta."""
    return int(np.shape(arrays_at([graph], {source.theta: source.initial_point()})[graph])[-1])


def _as_graph(source: ModelOfPyMC, predictors: Predictors) -> PredictorsOfPyMC:
    """Return the target whose terms PyTensor compiles as functions of the predictors."""
    likelihood = GraphLikelihood(predictors, source.rows.inputs, source.rows.data, source.hash)
    return PredictorsOfPyMC(source, predictors.design, likelihood, likelihood.columns)


def _compared(source: ModelOfPyMC, target: PredictorsOfPyMC) -> np.ndarray | float:
    """Return the constants by which PyMC's terms are larger than those of `target`, shape (n_obs,), or 0.

    Raises if terms differ by more than constants at some random points.
    """
    own = np.empty(target.n_obs)
    rng = np.random.default_rng(1)
    before = None
    for theta in _points(source, target, rng):
        for group in random_groups(target.n_obs, rng):
            own[group] = _some_terms(target, theta, group)
        expected = np.asarray(source.terms_by_pymc(theta))
        if expected.shape != own.shape or not np.isfinite(expected).all():
            raise NotPossibleError("its terms are not all finite")
        difference = expected - own
        before = difference if before is None else before
        different = "its terms differ from those of the predictors found"
        compare(difference, before, different, sizes=expected, tolerance=ROUNDING)
        rounding = ROUNDING * (1.0 + np.abs(before) + np.abs(expected))
    constants = np.where(np.abs(difference) <= rounding, 0.0, difference)
    return constants if constants.any() else 0.0


def _some_terms(target: PredictorsOfPyMC, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the terms of the rows with indices `rows` at theta, by the method with the least compilation."""
    if not target.is_dense:
        return target.likelihood.evaluate(target.design.eta(theta, rows), target.responses, rows)
    compiled = target.compile()
    some = np.empty(len(rows))
    compiled.log_terms(theta, compiled.data, rows, 0, len(rows), some)
    return some


def _points(source: ModelOfPyMC, target: PredictorsOfPyMC, rng: np.random.Generator) -> list[np.ndarray]:
    """Return random points around the initial one, so near that most predictors move by 1 or less."""
    dim = int(source.theta.type.shape[0])
    squares = np.square(target.X).sum() / max(len(target.X), 1)
    spread = 1.0 / (1.0 + np.sqrt(squares))
    return [source.initial_point() + rng.normal(scale=spread, size=dim) for _ in range(POINTS)]


def normal_design(source: ModelOfPyMC, found: Predictors, operation: Any, parameters: Sequence[Any]) -> Design | None:
    """Return the design of means and log scales of normal outcomes; None if the model has another form.

    `operation` is that of the observed variable's distribution, `parameters` its parameters as graphs of theta.
    """
    rows = source.rows
    if type(operation).__name__ != "NormalRV" or rows.variables[0].ndim > 2:
        return None
    mean, scale = parameters
    kind = kinds([mean, scale], source.theta)
    if kind.get(mean) != AFFINE or kind.get(scale, CONSTANT) not in (CONSTANT, LOG_AFFINE):
        return None
    J = int(np.prod(np.shape(rows.observed[0])[1:], dtype=int))
    return _with_scales(source, _of_means(source, found, mean, J), scale, J)


def _of_means(source: ModelOfPyMC, found: Predictors, mean: Any, J: int) -> Design:
    """Return a design that begins with the J means: that of `found` if it does so, else a new one."""
    theta = np.random.default_rng(0).normal(size=found.design.dim)
    function = in_python([source.theta], mean)
    at_theta = np.asarray(function(theta)).T
    of_rows = [quantity.size for quantity in found.quantities if quantity.row_axis is not None]
    if of_rows == [J] and np.allclose(found.design.eta(theta, slice(None))[:J], at_theta, rtol=1e-9, atol=1e-9):
        return found.design
    return design_of(source, [Quantity(mean, 0, J)])


def _with_scales(source: ModelOfPyMC, design: Design, scale: Any, J: int) -> Design | None:
    """Return the design of J means, with J log scales in place of the other predictors.

    None if a scale is not positive and finite at theta = 0.
    """
    n_rows = source.rows.n_rows
    dim = design.dim
    of_theta = in_python([source.theta], scale)

    def log_scales(theta: np.ndarray) -> np.ndarray:
        values = np.asarray(of_theta(theta), np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(
                np.broadcast_to(values.reshape(-1, 1) if values.ndim == 1 and J == 1 else values, (n_rows, J))
            )

    offsets = log_scales(np.zeros(dim))
    if not np.isfinite(offsets).all():
        return None
    weights = np.array([np.round(log_scales(unit)[0] - offsets[0], DIGITS) for unit in np.eye(dim)])
    X = design.X
    scales = []
    for column, mine in zip(offsets.T, weights.T, strict=True):
        entries = np.flatnonzero(mine)
        if (column == column[0]).all():
            shared = [*entries, dim]
            values = [*mine[entries], float(column[0])]
            span = (0, 0)
            places = []
        else:
            shared = [*entries]
            values = [*mine[entries]]
            span = (X.shape[1], X.shape[1] + 1)
            places = [dim]
            X = np.column_stack([X, column])
        scales.append(
            Predictor(span, places, shared=[int(entry) for entry in shared], values=[float(v) for v in values])
        )
    return Design(dim, X, design.codes, design.weight_columns, [*design.predictors[:J], *scales])
