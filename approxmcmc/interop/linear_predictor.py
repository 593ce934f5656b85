"""Find the linear predictors through which the rows of a model depend on theta, and evaluate its terms from them.

    y_i ~ F(x_i1' theta, ..., x_iK' theta),

for any names of the model's variables: `X @ beta`, an intercept, `effect[group]`, offsets, and sums of these, and
parameters that all rows share, such as a scale. If K = 1 and the library knows the distribution, it uses its own terms;
else PyTensor compiles them as functions of the predictors. Either way they are compared with PyMC's, all at once and in
random groups of rows.
"""

import contextlib
from typing import Any

import numpy as np
import pytensor
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Exp
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.contracts import CompiledTarget
from approxmcmc.families.bernoulli import LOGIT
from approxmcmc.families.family import Family
from approxmcmc.families.normal import NORMAL
from approxmcmc.families.poisson import POISSON
from approxmcmc.interop.affine import AFFINE, kinds
from approxmcmc.interop.graph_likelihood import GraphLikelihood
from approxmcmc.interop.graphs import by_numpy, evaluate, simplify
from approxmcmc.interop.groups.likelihoods import bare, without_clip
from approxmcmc.interop.model import ModelOfPyMC, TargetOfPyMC
from approxmcmc.interop.normal_law import normal_design
from approxmcmc.interop.predictors import NoLinearPredictorError, Predictors, find_predictors
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
LINKS = {"logit": Sigmoid, "log": Exp, "identity": None}  # operations of PyTensor


def structured_target(source: ModelOfPyMC) -> PredictorsOfPyMC:
    """Return the model as a target whose terms are functions of a few linear predictors.

    Raises
    ------
    NoLinearPredictorError
        When the rows depend on theta in another way; the message says what was found instead.
    """
    found = find_predictors(source)
    family = family_of(source) if found.design.n_predictors == 1 else None
    normal = normal_design(source, found) if family is None else None
    # `_checked` raises if the terms differ from the model's, for instance because an offset is added outside of the
    # predictor found; then the general form is tried.
    with contextlib.suppress(NoLinearPredictorError):
        if family is not None:
            return _checked(source, _of_family(source, found, family))
        if normal is not None:
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


def family_of(source: ModelOfPyMC) -> Family | None:
    """Return the library's family for the model, else None.

    The model must have one observed variable, its distribution with the same link and an affine predictor; a normal
    needs a known scale.
    """
    if len(source.rows.variables) > 1:
        return None
    node = source.rows.variables[0].owner
    family = FAMILIES.get(type(node.op).__name__)
    if family is None or family.twin is None:
        return None
    link = LINKS[family.twin.link]
    first, *rest = node.op.dist_params(node)
    parameters = dict(zip(node.inputs, source.rows.parameters, strict=True))
    [graph] = source.over_flat([parameters[first]])
    if link is not None:
        node = bare(without_clip(graph)).owner
        if node is None or not isinstance(node.op, Elemwise) or not isinstance(node.op.scalar_op, link):
            return None
        graph = node.inputs[0]
    elif _known_scale(source, parameters[rest[0]]) is None:
        return None
    return family if kinds([graph], source.theta).get(graph) == AFFINE else None


def _known_scale(source: ModelOfPyMC, scale: Any) -> float | None:
    """Return the scale of a normal distribution if it is one known positive number, else None."""
    if set(source.values) & set(ancestors([scale])):
        return None
    found = np.unique(evaluate(scale))
    return float(found[0]) if found.size == 1 and found[0] > 0.0 else None


def _of_family(source: ModelOfPyMC, found: Predictors, family: Family) -> PredictorsOfPyMC:
    """Return a target with the library's own terms: a plain design matrix, or one with codes or offsets."""
    y, scale = np.asarray(source.rows.observed[0], dtype=np.float64), 1.0
    if family is NORMAL:
        node = source.rows.variables[0].owner
        parameters = dict(zip(node.inputs, source.rows.parameters, strict=True))
        scale = _known_scale(source, parameters[node.op.dist_params(node)[1]]) or 1.0
    matrix = found.design.matrix()
    if matrix is None:
        design, likelihood = found.design, FamilyLikelihood(family, scale)
    else:  # in units of the scale
        design, likelihood = dense_design(checked_array(matrix / scale, "X", who="from_pymc")), FamilyLikelihood(family)
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
    rng, before = np.random.default_rng(1), None
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
    compiled, some = target.compile(), np.empty(len(rows))
    compiled.log_terms(theta, compiled.data, rows, 0, len(rows), some)
    return some


def _points(source: ModelOfPyMC, target: PredictorsOfPyMC, rng: np.random.Generator) -> list[np.ndarray]:
    """Return random points around the initial one, so near that most predictors move by 1 or less."""
    dim = int(source.theta.type.shape[0])
    squares = np.square(target.X).sum() / max(len(target.X), 1)
    spread = 1.0 / (1.0 + np.sqrt(squares))
    return [source.initial_point() + rng.normal(scale=spread, size=dim) for _ in range(POINTS)]
