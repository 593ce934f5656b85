"""Models whose rows see theta through one linear predictor, found in the graph: they run in the library's fast form.

    y_i ~ F(link(x_i' theta)),

whatever the model's variables are called: `X @ beta`, an intercept, `effect[group]`, and sums of these. The design is
read off the graph, whose columns are the predictor at unit vectors of theta; that it is linear is checked at random
points, and that the terms are those of the model is checked against PyMC's own, row by row.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Exp
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.contracts import CompiledTarget
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.interop.graphs import simplify
from approxmcmc.interop.kernels import log_prior_kernel, numba_function, prior_gradient_kernel
from approxmcmc.interop.model import ModelOfPyMC, TargetOfPyMC
from approxmcmc.targets.glm import GLMTarget
from approxmcmc.targets.linear import LinearTarget, LogisticRegression
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.tall_data import Prior

POINTS = 3  # at which linearity and terms are checked
LARGEST_DESIGN = 4e9  # bytes


class NoLinearPredictorError(ApproxMCMCError):
    """The model is none of these; the message says why."""


class Family(NamedTuple):
    """A law of PyMC's, the place of its predictor among the parameters, the link, and the target's class."""

    name: str
    place: int
    link: type | None
    make: Callable[[np.ndarray, np.ndarray], LinearTarget]


class LogisticOfPyMC(TargetOfPyMC, LogisticRegression):
    """A logistic regression, found in a PyMC model."""

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, where the model's data are still those that were read."""
        self.source.refuse_changed_data()
        return super().compile()


class LinearOfPyMC(TargetOfPyMC, GLMTarget):
    """Another generalised linear model, found in a PyMC model."""

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, where the model's data are still those that were read."""
        self.source.refuse_changed_data()
        return super().compile()


def _poisson(eta: float, y: float) -> float:
    """Return log p(y | eta) but for log y!."""
    return y * eta - math.exp(eta)


def _poisson_derivatives(eta: float, y: float) -> tuple[float, float]:
    mean = math.exp(eta)
    return y - mean, -mean


def _third_of_poisson(eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
    return np.exp(eta + reach)


def _normal(eta: float, y: float) -> float:
    return -0.5 * (y - eta) ** 2


def _normal_derivatives(eta: float, y: float) -> tuple[float, float]:
    return y - eta, -1.0


def _poisson_regression(X: np.ndarray, y: np.ndarray) -> LinearOfPyMC:
    return LinearOfPyMC(_poisson, X, y, derivatives_eta=_poisson_derivatives, third_derivative_bound=_third_of_poisson)


def _normal_regression(X: np.ndarray, y: np.ndarray) -> LinearOfPyMC:
    return LinearOfPyMC(_normal, X, y, derivatives_eta=_normal_derivatives, second_derivative_bound=1.0)


FAMILIES = {
    "BernoulliRV": Family("logistic regression", 0, Sigmoid, LogisticOfPyMC),
    "PoissonRV": Family("Poisson regression", 0, Exp, _poisson_regression),
    "NormalRV": Family("normal regression with a known scale", 0, None, _normal_regression),
}


class PriorOfPyMC(Prior):
    """A log prior that PyTensor compiles, such as that of a hierarchy."""

    def __init__(self, source: ModelOfPyMC) -> None:
        super().__init__(math.inf, None, who="PyMCTarget")
        self.scale, self.source = math.nan, source
        self.graph = simplify(log_prior_of(source))

    def normal(self, dim: int) -> None:
        """Return None: it is no normal law, as far as anybody looked."""

    def compile(self, dim: int) -> Any:
        """Compile the graph."""
        return log_prior_kernel(numba_function([self.source.theta], [self.graph], (self.source.initial_point(),)))

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Compile its gradient."""
        gradient = pytensor.grad(self.graph, self.source.theta)
        return prior_gradient_kernel(numba_function([self.source.theta], [gradient], (self.source.initial_point(),)))

    def identity(self) -> str:
        """Return the hash of the model."""
        return self.source.hash


def log_prior_of(source: ModelOfPyMC) -> Any:
    """Return the sum of the log densities of variables and potentials, as a graph of the flat theta."""
    total = sum(term.sum() for term in source.log_priors())
    return source.over_flat([total])[0].astype("float64")


def linear_target(source: ModelOfPyMC) -> LinearTarget:
    """Return the model in the fast form.

    Raises
    ------
    NoLinearPredictorError
        When it has none; the message says what was found instead.
    """
    node = source.rows.variable.owner
    family = FAMILIES.get(type(node.op).__name__)
    if family is None:
        raise NoLinearPredictorError(f"its likelihood is {_named(node)}; known are {', '.join(map(_law, FAMILIES))}")
    parameters = node.op.dist_params(node)
    places = [node.inputs.index(parameter) for parameter in parameters]
    predictor = _without_link(source.rows.parameters[places[family.place]], family)
    rest = [source.rows.parameters[place] for k, place in enumerate(places) if k != family.place]
    X = _design(source, predictor)
    y = np.asarray(source.observed_data[source.observed.name], dtype=np.float64)
    if family.link is None:
        scale = _known_scale(source, rest)
        X, y = X / scale, y / scale
    target = family.make(X, y)
    target.source = source  # type: ignore[attr-defined]
    target.prior = _prior(source)
    target.variables = source.describe()
    _compare(source, target)
    return target


def describe(target: LinearTarget) -> str:
    """Say in a sentence what was found."""
    family = FAMILIES[type(target.source.rows.variable.owner.op).__name__]  # type: ignore[attr-defined]
    prior = "normal priors" if isinstance(target.prior, NormalPrior) else "a prior that PyTensor compiles"
    return f"{family.name}, one linear predictor of {target.X.shape[1]} parameters, {prior}"


def _law(name: str) -> str:
    return name.removesuffix("RV")


def _named(node: Any) -> str:
    return _law(type(node.op).__name__)


def _without_link(graph: Any, family: Family) -> Any:
    """Return the argument of the link."""
    if family.link is None:
        return graph
    node = graph.owner
    if node is None or not isinstance(node.op, Elemwise) or not isinstance(node.op.scalar_op, family.link):
        raise NoLinearPredictorError(f"its parameter is no {family.link.__name__.lower()} of something")
    return node.inputs[0]


def _design(source: ModelOfPyMC, predictor: Any) -> np.ndarray:
    """Return the matrix of a predictor that is linear in theta, shape (n_rows, dim)."""
    n_rows, dim = source.rows.n_rows, int(source.theta.type.shape[0])
    if n_rows * dim * 8 > LARGEST_DESIGN:
        raise NoLinearPredictorError(f"its design of {n_rows} x {dim} numbers would be too large")
    [graph] = source.over_flat([predictor])
    if source.theta not in set(ancestors([graph])):
        raise NoLinearPredictorError("its predictor does not depend on the parameters")
    function = pytensor.function([source.theta], graph, mode="FAST_COMPILE")
    origin = np.asarray(function(np.zeros(dim)), dtype=np.float64)
    if origin.shape != (n_rows,):
        raise NoLinearPredictorError(f"its predictor has the shape {origin.shape}, not one number for each row")
    if not np.isfinite(origin).all() or origin.any():
        raise NoLinearPredictorError("its predictor has an offset")
    X = np.empty((n_rows, dim))
    for j, unit in enumerate(np.eye(dim)):
        X[:, j] = function(unit)
    rng = np.random.default_rng(0)
    for _ in range(POINTS):
        theta = rng.normal(size=dim)
        found, expected = np.asarray(function(theta)), X @ theta
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(expected).max())):
            raise NoLinearPredictorError("its predictor is not linear in the parameters")
    return X


def _known_scale(source: ModelOfPyMC, rest: list[Any]) -> float:
    """Return the scale of a normal law where it is one number."""
    [scale] = rest
    values = set(source.values)
    found = np.unique(scale.eval()) if not values & set(ancestors([scale])) else np.empty(0)
    if found.size != 1 or not found[0] > 0.0:
        raise NoLinearPredictorError("the scale of its normal law is a parameter, or differs from row to row")
    return float(found[0])


def _prior(source: ModelOfPyMC) -> Prior:
    """Return independent normal priors where all are, else the prior's graph."""
    model = source.model
    means, scales = [], []
    if model.potentials or source.scales:
        return PriorOfPyMC(source)
    for variable, value in zip(model.free_RVs, source.values, strict=True):
        node = variable.owner
        law, shape = _named(node), np.shape(source.start[value.name])
        changed = model.rvs_to_transforms[variable] is not None
        parents = set(ancestors(node.inputs)) & set(model.free_RVs)
        if changed or parents or law not in ("Normal", "Flat"):
            return PriorOfPyMC(source)
        mean, scale = [p.eval() for p in node.op.dist_params(node)] if law == "Normal" else (0.0, math.inf)
        means.append(np.broadcast_to(mean, shape).ravel())
        scales.append(np.broadcast_to(scale, shape).ravel())
    return NormalPrior(np.concatenate(means), np.concatenate(scales))


def _compare(source: ModelOfPyMC, target: LinearTarget) -> None:
    """Refuse terms that differ from PyMC's by more than a constant of each row."""
    [full] = source.over_flat([source.rows.all_terms()])
    theirs = pytensor.function([source.theta], simplify(full), mode="FAST_COMPILE")
    compiled, own = target.compile(), np.empty(target.n_obs)
    rng, dim, before = np.random.default_rng(1), target.variables.size, None
    spread = 1.0 / (1.0 + np.sqrt(np.mean(np.square(target.X)) * dim))
    for _ in range(POINTS):
        theta = rng.normal(scale=spread, size=dim)
        compiled.log_terms(theta, compiled.data, np.empty(0, dtype=np.int64), 0, target.n_obs, own)
        difference = np.asarray(theirs(theta)) - own
        before = difference if before is None else before
        if difference.shape != own.shape or not np.allclose(difference, before, rtol=1e-8, atol=1e-8):
            raise NoLinearPredictorError("its terms are not those of the law that was recognised")
