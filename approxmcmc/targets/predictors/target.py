"""A user-defined model in which rows depend on theta through a few linear predictors, such as mean and log scale."""

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import PredictiveTarget, Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources.parts import each
from approxmcmc.targets.blocks import files_of
from approxmcmc.targets.checks import (
    CHECKED_ROWS,
    check_compiles,
    checked_array,
    checked_arrays,
    plain_function,
)
from approxmcmc.targets.given import check_names, check_same_index, checked_weights, kept, with_sources
from approxmcmc.targets.new_rows import in_memory, refuse_columns, same_columns
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.predictors.assemble import PredictorPart, Treatment, assemble, labels_of, read_part
from approxmcmc.targets.predictors.likelihood import ScalarLikelihood
from approxmcmc.targets.predictors.predictive import ResponsesOfUser, RowsOfPredictors
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.tall_data import SCALE_RULE, Prior, is_prior_scale

WHO = "PredictorTarget"


class PredictorTarget(Regression, PredictiveTarget):
    r"""A likelihood of K linear predictors: log p(y_i | theta) = loglik(eta_i1, ..., eta_iK, y_i).

    Such models are generalised linear models with an unknown scale or shape, distributional regression, varying
    intercepts and slopes, and mixtures of regressions.

    Parameters
    ----------
    loglik
        ``loglik(eta_1, ..., eta_K, y) -> float``, plain Python, compiled here; several responses are the last
        arguments. Functions of `approxmcmc.engine.numerics`, such as `softplus`, keep the loop over rows vectorised.
    predictors
        For each predictor, in the order of `loglik`, the variables that it adds up, by name, each with its design:

        - an array of shape (n, p): X @ beta, beta of length p;
        - n floats: x_i times a scalar;
        - n integers, or a column of categories: effect[code_i], one addition however many categories there are,
          numbered from 0;
        - ``Treatment(column)`` of such codes: effects of all levels but the first, whose effect is 0;
        - a pair (n integers, n floats): x_i effect[code_i], a varying slope;
        - one number: that times a scalar that all rows share, such as an intercept or a log scale.

        A name in several predictors is the same variable.
    y
        Responses: an array of n numbers, or a tuple of such arrays.
    offsets
        Known parts of predictors, by the predictor's name: n numbers each, such as a log exposure.
    weights
        Known weights of rows, positive, n numbers: `loglik` of row i is multiplied by weights_i; None: 1.
    prior_scale
        Standard deviations of independent normal priors: one number, or one for each variable by name; inf is flat.
    prior
        A function ``log_prior(theta) -> float`` of the flat theta that replaces the normal priors. In theta, variables
        are in the order in which `predictors` first names them.
    derivatives
        ``derivatives(eta_1, ..., y)`` returns a tuple: K slopes of `loglik` in the predictors, then its K (K + 1) / 2
        second derivatives, row by row of the upper triangle. None: five-point differences.
    dims, coords
        Axis names by variable, and labels by axis, as in `pymc.Model`. By default the entries of a variable have the
        names of the categories or columns of its design as labels, if there are any.
    initial_point
        The point around which chains start, values by variable; default 0.
    mean, simulate
        Functions of arrays of predictors, for :func:`approxmcmc.predict`: ``mean(eta_1, ..., eta_K)`` returns the
        expected responses, ``simulate(rng, eta_1, ..., eta_K)`` draws responses with a `numpy.random.Generator`; both
        with the shape of one predictor. None: the target predicts its predictors only.
    pymc_model
        A function that returns the same posterior as a `pymc.Model`, for gold standards.

    Raises
    ------
    InvalidInputError
        When designs, responses, names or settings do not fit.
    CompilationError
        When `loglik` does not compile, or returns anything but one number.

    Notes
    -----
    Guarantee: the posterior as written, exactly. Because of its structure, an expansion
    (:class:`ControlVariate`) takes 1 + 2 K + K (K + 1) / 2 numbers a row and one pass over the data,
    where a :class:`FunctionTarget` takes 1 + d + d (d + 1) / 2 and 2 + 2 d; a row costs one dot product for each dense
    predictor. References: Rigby and Stasinopoulos (2005), for models of several predictors.

    Examples
    --------
    A normal regression with groups, whose log scale is another predictor:

    >>> import math, numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X, group = rng.normal(size=(1000, 2)), rng.integers(4, size=1000)
    >>> def loglik(mu, log_sigma, y):
    ...     return -log_sigma - 0.5 * ((y - mu) * math.exp(-log_sigma)) ** 2
    >>> predictors = {"mu": {"beta": X, "effect": group}, "log_sigma": {"log_sigma": 1.0}}
    >>> target = amc.targets.PredictorTarget(loglik, predictors, rng.normal(size=1000))
    >>> target, target.variables.shapes
    (PredictorTarget(n_obs=1000, 2 predictors, dim=7), {'beta': (2,), 'effect': (4,), 'log_sigma': ()})
    """

    @naming_the_arguments
    def __init__(
        self,
        loglik: Callable[..., float],
        predictors: Mapping[str, Mapping[str, Any]],
        y: Any,
        *,
        offsets: Mapping[str, Any] | None = None,
        weights: Any = None,
        prior_scale: float | Mapping[str, float] = 1.0,
        prior: Callable[..., float] | None = None,
        derivatives: Callable[..., tuple[float, ...]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        initial_point: Mapping[str, Any] | None = None,
        mean: Callable[..., Any] | None = None,
        simulate: Callable[..., Any] | None = None,
        pymc_model: Callable[[], Any] | None = None,
    ) -> None:
        self.responses_of_user = ResponsesOfUser(mean, simulate)
        check_same_index(predictors=predictors, offsets=offsets, weights=weights, y=y)
        y = _as_responses(y)
        sources = with_sources((predictors, offsets or {}, weights, y))
        self.given = kept(sources)
        self._form = _form_of(*sources[:2])
        self._predictor_names = [str(name) for name in predictors]
        parts, responses, known_weights = _read(*sources)
        self.variables = _variables(parts, dims or {}, coords or {})
        self.likelihood = ScalarLikelihood(
            plain_function(loglik, "loglik"),
            len(parts),
            len(responses),
            None if derivatives is None else plain_function(derivatives, "derivatives"),
        )
        self._set_rows(assemble(parts, self.variables, len(responses[0])), responses, known_weights)
        self.prior = _prior(self.variables, prior_scale, prior)
        self._initial_point = self.variables.pack(
            {**self.variables.unpack(np.zeros(self.design.dim)), **(initial_point or {})}
        )
        self.pymc_model = pymc_model
        # A try at predictors of .25, where few functions have a pole or a kink.
        arguments = (*[0.25] * len(parts), *(float(response[0]) for response in self.unweighted_responses))
        expected = f"loglik({', '.join(map(str, predictors))}, y) -> float"
        check_compiles(self._single.loglik, "loglik", arguments, expected)
        if self.knows_derivatives:
            self._check_derivatives(0)

    @property
    def _single(self) -> ScalarLikelihood:
        """The likelihood of rows without weights."""
        single = self.likelihood.single
        assert isinstance(single, ScalarLikelihood)
        return single

    def with_rows(self, given: tuple[Any, ...], n_obs: int) -> Self:
        """Return this model, with the same variables, for other data: (predictors, offsets, weights, y)."""
        other = copy.copy(self)
        other.given = None
        parts, responses, weights = _read(*given)
        other._set_rows(assemble(parts, self.variables, n_obs), responses, weights)
        return other

    @names_itself("append to {}")
    def rows_to_append(
        self, predictors: Any, y: Any, *, offsets: Mapping[str, Any] | None = None, weights: Any = None
    ) -> Self:
        """Return the target of new rows alone: predictors, responses, offsets and weights, as the constructor has them.

        Columns of categories must have the categories of the target's, in the same order.
        """
        same_columns({"weights": (self.weights is not None, weights)})
        check_same_index(predictors=predictors, offsets=offsets, weights=weights, y=y)
        y = _as_responses(y)
        new_data = with_sources((predictors, offsets or {}, weights, y))
        parts, responses, known_weights = _read(*each(in_memory, new_data))
        self._refuse_other_form(_form_of(*new_data[:2]), self._form, parts)
        other = copy.copy(self)
        other._start_anew(files_of(new_data))
        other._set_rows(assemble(parts, self.variables, len(responses[0])), responses, known_weights)
        return other

    @names_itself("predict for {}")
    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsOfPredictors:
        """Return `rows` for a prediction: predictors as the constructor has them; None means the target's own rows.

        New rows may have ``offsets``, by the predictor's name, by default 0.
        """
        offsets = None if rows is None else columns.pop("offsets", None)
        refuse_columns(columns)
        if rows is None:
            own = RowsOfPredictors(self.design, self.responses_of_user, self._predictor_names)
            return own.of_weighted(self.weights)
        check_same_index(rows=rows, offsets=offsets)
        sources = with_sources((rows, offsets or {}))
        predictors, known = each(in_memory, sources)
        n = _number_of_rows(predictors)
        parts = _parts(predictors, known, n)
        form = {**_form_of(*sources), "offsets": {}}
        self._refuse_other_form(form, {**self._form, "offsets": {}}, parts)
        return RowsOfPredictors(assemble(parts, self.variables, n), self.responses_of_user, self._predictor_names)

    def _refuse_other_form(
        self,
        form: Mapping[str, Any],
        needed: Mapping[str, Any],
        parts: Mapping[str, list[PredictorPart]],
    ) -> None:
        """Raise if new rows, with these parts, have other predictors, variables, offsets or categories than needed."""
        if form != needed:
            raise InvalidInputError(
                f"{speaker()}: the new rows need the predictors, variables, offsets and categories {needed}, found "
                f"{form}"
            )
        for part in itertools.chain.from_iterable(parts.values()):
            length = math.prod(self.variables.shapes[part.variable]) if part.variable is not None else 1
            is_dense = part.codes is None and part.X is not None
            # Codes may lack the last categories; dense columns must be all of them.
            if part.length > length or (is_dense and part.length != length):
                raise InvalidInputError(
                    f"{speaker()}: {part.variable!r} has {length} entries, and the new rows need {part.length}; make "
                    "the target from all rows"
                )

    def _term_gradients(self) -> Any:
        if self.knows_derivatives:
            for i in np.unique(np.linspace(0, self.n_obs - 1, CHECKED_ROWS).astype(int)):
                self._check_derivatives(int(i))
        return super()._term_gradients()

    @names_itself()
    def _check_derivatives(self, row: int) -> None:
        responses = [float(response[row]) for response in self.unweighted_responses]
        self._single.check_derivatives(responses, f"derivatives at datum {row}")

    def initial_point(self) -> np.ndarray:
        """Return the theta around which chains start; shape (dim,)."""
        return self._initial_point.copy()

    def to_pymc(self) -> Any:
        """Return the `pymc.Model` that the user supplied."""
        return self.pymc_model() if self.pymc_model is not None else super().to_pymc()


def _as_responses(y: Any) -> Any:
    """Return a list of columns as a tuple of responses; a list of numbers is one response."""
    return tuple(y) if isinstance(y, list) and any(np.ndim(column) for column in y) else y


def _form_of(predictors: Any, offsets: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return for each predictor and variable the categories of its codes, and which predictors have offsets."""
    if not isinstance(predictors, Mapping) or not all(
        isinstance(predictor, Mapping) for predictor in predictors.values()
    ):
        return {}  # `_read` raises
    return {
        **{
            name: {variable: labels_of(_column_of(design)) for variable, design in variables.items()}
            for name, variables in predictors.items()
        },
        "offsets": dict.fromkeys(sorted(offsets), ()),
    }


def _number_of_rows(predictors: Any) -> int:
    """Return the number of rows of new predictors: the length of the first design that has one number for each row."""
    if isinstance(predictors, Mapping) and all(isinstance(variables, Mapping) for variables in predictors.values()):
        for variables in predictors.values():
            for design in variables.values():
                column = _column_of(design)
                if np.ndim(column):
                    return len(column)
    raise InvalidInputError(
        f"{speaker()}: rows must map each predictor to its variables and their designs, as the target has them, with "
        f"one column at least; found {predictors!r}"
    )


def _column_of(design: Any) -> Any:
    """Return the column of codes in a design, or the design itself."""
    if isinstance(design, Treatment):
        return design.column
    return design[0] if isinstance(design, tuple) and len(design) == 2 else design


def _read(
    predictors: Any, offsets: Mapping[str, Any], weights: Any, y: Any
) -> tuple[dict[str, list[PredictorPart]], tuple[np.ndarray, ...], np.ndarray | None]:
    """Return the parts of each predictor, the responses, and the weights of rows or None, all checked."""
    responses = tuple(array.astype(np.float64) for array in checked_arrays(y, "y"))
    if not responses or any(
        response.ndim != 1 or len(response) != len(responses[0]) or not len(response) for response in responses
    ):
        shapes = [response.shape for response in responses]
        raise InvalidInputError(f"{WHO}: y must be n numbers, or a tuple of such arrays, found shapes {shapes}")
    n = len(responses[0])
    known_weights = None if weights is None else checked_weights(weights, n)
    return _parts(predictors, offsets, n), responses, known_weights


def _parts(predictors: Any, offsets: Mapping[str, Any], n: int) -> dict[str, list[PredictorPart]]:
    """Return the parts of each predictor, checked: one for each variable in it, and one for an offset."""
    if not isinstance(predictors, Mapping) or not all(
        isinstance(variables, Mapping) and variables for variables in predictors.values()
    ):
        raise InvalidInputError(
            f"{WHO}: predictors must map each predictor to its variables and their designs, such as "
            f'{{"mu": {{"beta": X, "effect": group}}, "log_sigma": {{"log_sigma": 1.0}}}}; found {predictors!r}'
        )
    if not predictors:
        raise InvalidInputError(f"{WHO}: predictors is empty; a likelihood needs one at least")
    if unknown := [name for name in offsets if name not in predictors]:
        raise InvalidInputError(f"{WHO}: offsets name {unknown}, the predictors are {list(predictors)}")
    parts = {
        name: [
            read_part(variable, design, n, f"{name}[{variable!r}]")
            for variable, design in variables_of_predictor.items()
        ]
        for name, variables_of_predictor in predictors.items()
    }
    for name, offset in offsets.items():
        offset_array = checked_array(offset, f"offsets[{name!r}]").astype(np.float64)
        if offset_array.shape != (n,):
            raise InvalidInputError(f"{WHO}: offsets[{name!r}] must have shape ({n},), found {offset_array.shape}")
        parts[name].append(PredictorPart(None, offset_array[:, None]))
    return parts


def _variables(
    parts: Mapping[str, list[PredictorPart]], dims: Mapping[str, Sequence[str]], coords: Mapping[str, Sequence[Any]]
) -> Variables:
    """Return names and shapes of the variables; the length of a vector follows from its designs or its labels."""
    used = [part for parts_of_predictor in parts.values() for part in parts_of_predictor if part.variable is not None]
    labelled = {name: tuple([axes] if isinstance(axes, str) else axes) for name, axes in dims.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    for part in used:
        name = part.variable
        assert name is not None
        alike = [other for other in used if other.variable == name]
        if any(other.is_scalar != part.is_scalar for other in alike):
            raise InvalidInputError(
                f"{WHO}: {name!r} is a scalar in one predictor and a vector in another; use two names"
            )
        length = max(other.length for other in alike)
        label_counts = [len(coords[axis]) for axis in labelled.get(name, ()) if axis in coords]
        if len(label_counts) == 1 and all(other.codes is not None for other in alike):
            length = label_counts[0]  # codes may lack the last categories
        if any(other.length > length or (other.codes is None and other.length != length) for other in alike):
            raise InvalidInputError(
                f"{WHO}: {name!r} has {length} entries, and its designs need {[other.length for other in alike]}; "
                "codes count from 0"
            )
        shapes[name] = () if part.is_scalar else (length,)
    labelled, coords = _with_labels_of_designs(used, shapes, labelled, coords)
    if unknown := [name for name in labelled if name not in shapes]:
        raise InvalidInputError(f"{WHO}: dims name {unknown}, the variables are {list(shapes)}")
    for name, axes in labelled.items():
        lengths = [len(coords[axis]) for axis in axes if axis in coords]
        if len(axes) != len(shapes[name]) or (lengths and tuple(lengths) != shapes[name]):
            raise InvalidInputError(
                f"{WHO}: {name!r} has shape {shapes[name]}, its dims {axes} have {lengths} labels in coords"
            )
    variables = Variables(shapes, labelled, {axis: list(labels) for axis, labels in coords.items()})
    check_names(variables)
    return variables


def _with_labels_of_designs(
    parts: Iterable[PredictorPart],
    shapes: Mapping[str, tuple[int, ...]],
    labelled: Mapping[str, tuple[str, ...]],
    coords: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
    """Return dims and coords with an axis for each variable that has none, if all its designs have the same labels."""
    axes = dict(labelled)
    names = dict(coords)
    for variable, shape in shapes.items():
        label_sets = {part.labels[: shape[0]] for part in parts if part.variable == variable and shape and part.labels}
        if variable not in axes and len(label_sets) == 1 and len(labels := label_sets.pop()) == shape[0]:
            axis = f"{variable}_dim_0"
            axes[variable] = (axis,)
            names[axis] = labels
    return axes, names


def _prior(variables: Variables, scale: float | Mapping[str, float], function: Callable[..., float] | None) -> Prior:
    """Return the user's prior `function`, or normal priors of the given scales."""
    if function is not None or not isinstance(scale, Mapping):
        return Prior(scale, function)  # type: ignore[arg-type]  # a mapping beside a function is ignored
    if set(scale) != set(variables.shapes) or not all(map(is_prior_scale, scale.values())):
        raise InvalidInputError(
            f"{WHO}: prior_scale must give a number {SCALE_RULE} for each of {list(variables.shapes)}, "
            f"found {dict(scale)}"
        )
    sizes = [math.prod(shape) for shape in variables.shapes.values()]
    scales = np.repeat([float(scale[name]) for name in variables.shapes], sizes)
    return NormalPrior(np.zeros(len(scales)), scales)
