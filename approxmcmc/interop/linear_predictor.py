"""Find the linear predictors through which the rows of a model depend on theta, and evaluate its terms from them.

    y_i ~ F(x_i1' theta, ..., x_iK' theta),

for any names of the model's variables: `X @ beta`, an intercept, `effect[group]`, offsets, and sums of these, and
parameters that all rows share, such as a scale. If K = 1 and the library knows the distribution, it uses its own terms;
else PyTensor compiles them as functions of the predictors. Either way they are compared with PyMC's, all at once and in
random groups of rows.
"""

import contextlib
import functools
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import CompiledTarget
from approxmcmc.families.bernoulli import LOGIT
from approxmcmc.families.family import Family
from approxmcmc.families.normal import NORMAL
from approxmcmc.families.poisson import POISSON
from approxmcmc.interop.affine import AFFINE, kinds
from approxmcmc.interop.graph_likelihood import GraphLikelihood
from approxmcmc.interop.graphs import by_numpy, evaluate, simplify
from approxmcmc.interop.groups.likelihoods import Known, without_clip
from approxmcmc.interop.groups.values import NotGroupsError
from approxmcmc.interop.model import ModelOfPyMC, TargetOfPyMC
from approxmcmc.interop.normal_law import normal_design
from approxmcmc.interop.predictors import NoLinearPredictorError, Predictors, Quantity, design_of, find_predictors
from approxmcmc.interop.prior import prior_of
from approxmcmc.interop.rows import random_groups
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.predictors.closed_form import NormalLikelihood
from approxmcmc.targets.predictors.design import Design, dense_design
from approxmcmc.targets.predictors.family import FamilyLikelihood
from approxmcmc.targets.predictors.likelihood import RowLikelihood
from approxmcmc.targets.regression import Regression

POINTS = 3  # points at which terms are compared with PyMC's


class PredictorsOfPyMC(TargetOfPyMC, Regression):
    """A regression, found in a PyMC model."""

    def __init__(
        self, source: ModelOfPyMC, design: Design, likelihood: RowLikelihood, responses: tuple[np.ndarray, ...]
    ) -> None:
        self.source = source
        self.likelihood = likelihood
        self._set_rows(design, responses)

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, after checking that the model's data are unchanged."""
        self.source.refuse_changed_data()
        return super().compile()


FAMILIES = {f"{family.twin.distribution}RV": family for family in (LOGIT, POISSON, NORMAL) if family.twin is not None}


class RowsOfFamily(NamedTuple):
    """A family of the library, and the graph of its predictor, which is affine in theta; offsets are in it."""

    family: Family
    predictor: Any


def structured_target(source: ModelOfPyMC) -> PredictorsOfPyMC:
    """Return the model as a target whose terms are functions of a few linear predictors.

    Raises
    ------
    NoLinearPredictorError
        When the rows depend on theta in another way; the message says what was found instead.
    """
    found = find_predictors(source)
    law = rows_of_family(source)
    # `_checked` raises if the terms differ from the model's; then the next form is tried.
    if law is not None and found.design.n_predictors == 1:
        with contextlib.suppress(NoLinearPredictorError):
            return _checked(source, _of_family(source, found.design, law.family))
    if law is not None:  # an offset is added outside of the predictor found, or an exposure is a factor of the mean
        with contextlib.suppress(NoLinearPredictorError):
            design = design_of(source, [Quantity(law.predictor, 0, 1)])
            return _checked(source, _of_family(source, design, law.family))
    normal = normal_design(source, found)
    if normal is not None:
        with contextlib.suppress(NoLinearPredictorError):
            return _checked(source, _normal_rows(source, normal))
    return _checked(source, _general(source, found))


def _normal_rows(source: ModelOfPyMC, design: Design) -> PredictorsOfPyMC:
    """Return the target of normal outcomes with the means and log scales of `design`."""
    Y = np.asarray(source.rows.observed[0], dtype=np.float64).reshape(source.rows.n_rows, -1)
    return PredictorsOfPyMC(source, design, NormalLikelihood(Y.shape[1]), (np.ascontiguousarray(Y),))


def _checked(source: ModelOfPyMC, target: PredictorsOfPyMC) -> PredictorsOfPyMC:
    """Return a target with prior and names of the model, after comparing its terms with the model's."""
    target.prior = prior_of(source)
    target.variables = source.describe()
    target.omitted_constants = _compared(source, target)
    return target


def rows_of_family(source: ModelOfPyMC) -> RowsOfFamily | None:
    """Return the library's family for the rows of a model, with their predictor, else None.

    The model must have one observed variable with an axis of rows only, its distribution with the same link and an
    affine predictor; a normal needs a known scale. Known positive factors of a Poisson mean are offsets.
    """
    [variable, *others] = source.rows.variables
    family = FAMILIES.get(type(variable.owner.op).__name__)
    if others or family is None or variable.ndim != 1:
        return None
    first, *rest = variable.owner.op.dist_params(variable.owner)
    parameters = dict(zip(variable.owner.inputs, source.rows.parameters, strict=True))
    if family is NORMAL and _known_scale(source, parameters[rest[0]]) is None:
        return None
    [graph] = source.over_flat([parameters[first]])
    predictor = graph if family is NORMAL else _linked(family, graph, Known({source.theta}))
    is_affine = predictor is not None and kinds([predictor], source.theta).get(predictor) == AFFINE
    return RowsOfFamily(family, predictor) if is_affine else None


def _linked(family: Family, graph: Any, known: Known) -> Any:
    """Return the predictor of a probability with a logit, or of a mean with a logarithm; None for another link."""
    try:
        if family is LOGIT:
            link, predictor = known.probability(without_clip(graph))
            return predictor if link == "logit" else None
        parts, factors = known.logarithm(graph)
    except NotGroupsError:
        return None
    if not all((np.asarray(evaluate(one)) > 0.0).all() for one in factors):
        return None
    offsets = [pt.log(one.astype("float64")) for one in factors]  # PyTensor holds 0.5 in 32 bits
    return functools.reduce(pt.add, [*parts, *offsets])


def _known_scale(source: ModelOfPyMC, scale: Any) -> float | None:
    """Return the scale of a normal distribution if it is one known positive number, else None."""
    if set(source.values) & set(ancestors([scale])):
        return None
    found = np.unique(evaluate(scale))
    return float(found[0]) if found.size == 1 and found[0] > 0.0 else None


def _of_family(source: ModelOfPyMC, design: Design, family: Family) -> PredictorsOfPyMC:
    """Return a target with the library's own terms: a plain design matrix, or one with codes or offsets."""
    y = np.asarray(source.rows.observed[0], dtype=np.float64)
    scale = 1.0
    if family is NORMAL:
        node = source.rows.variables[0].owner
        parameters = dict(zip(node.inputs, source.rows.parameters, strict=True))
        scale = _known_scale(source, parameters[node.op.dist_params(node)[1]]) or 1.0
    matrix = design.matrix()
    if matrix is None:
        likelihood = FamilyLikelihood(family, scale)
    else:  # in units of the scale
        design = dense_design(checked_array(matrix / scale, "X", who="from_pymc"))
        likelihood = FamilyLikelihood(family)
        y = checked_array(y / scale, "y", who="from_pymc")
    target = PredictorsOfPyMC(source, design, likelihood, (y,))
    target.terms_are_concave = family.is_concave
    return target


def _general(source: ModelOfPyMC, found: Predictors) -> PredictorsOfPyMC:
    likelihood = GraphLikelihood(found, source.rows.inputs, source.rows.data, source.hash)
    return PredictorsOfPyMC(source, found.design, likelihood, likelihood.columns)


def _compared(source: ModelOfPyMC, target: PredictorsOfPyMC) -> np.ndarray | float:
    """Return the constants by which PyMC's terms are larger than those of `target`, shape (n_obs,), or 0.

    Raises if terms differ by more than constants at some random points.
    """
    [full] = source.over_flat([source.rows.all_terms()])
    theirs = pytensor.function([source.theta], by_numpy(simplify(full)), mode="FAST_COMPILE")
    own = np.empty(target.n_obs)
    rng = np.random.default_rng(1)
    before = None
    for theta in _points(source, target, rng):
        for group in random_groups(target.n_obs, rng):
            own[group] = _some_terms(target, theta, group)
        expected = np.asarray(theirs(theta))
        if expected.shape != own.shape or not np.isfinite(expected).all():
            raise NoLinearPredictorError("its terms are not all finite")
        difference = expected - own
        before = difference if before is None else before
        # Differences of terms lose digits.
        allowed = 1e-8 * (1.0 + np.abs(before) + np.abs(expected))
        if not (np.abs(difference - before) <= allowed).all():
            raise NoLinearPredictorError("its terms differ from those of the predictors found")
    constants = np.where(np.abs(difference) <= allowed, 0.0, difference)
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
