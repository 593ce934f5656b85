r"""Rows in groups with one random effect per group, which is integrated out by quadrature, so a term is a group.

.. math:: y_{gi} \sim p(y \mid \eta_{gi}), \quad \eta_{gi} = x_{gi}' \beta + \sigma z_g, \quad z_g \sim N(0, 1).

The nodes of each group depend on theta (`quadrature`). Their number is chosen by how much the error, summed over
groups, changes over the posterior. The error of the worst group would not do, because errors of 20 000 groups add up,
and an error that does not change with theta leaves the posterior unchanged.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import PredictiveTarget, content_hash
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning, warn
from approxmcmc.families import FAMILIES
from approxmcmc.families.family import Family
from approxmcmc.families.stack import RESPONSE, SIZE, Stack
from approxmcmc.families.user import of_user
from approxmcmc.targets.checks import checked_array, plain_function
from approxmcmc.targets.family_regression import LOG_SHAPE_SCALE
from approxmcmc.targets.given import check_same_index, checked_weights, kept, response_source, with_sources
from approxmcmc.targets.groups.grouping import ROWS, grouping
from approxmcmc.targets.groups.link import ABS, AS_IT_IS, EXP, link
from approxmcmc.targets.groups.predictive import (
    RowsInGroups,
    design_of_new_rows,
    groups_of_new_rows,
    numbers_of_rows,
    own_groups,
)
from approxmcmc.targets.groups.quadrature_terms import CORE, LARGEST_ERROR, QuadratureTerms
from approxmcmc.targets.groups.variables import SHAPE, GroupVariables, group_variables
from approxmcmc.targets.new_rows import labels_of_rows, refuse_columns
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.predictors.design import Design, Predictor
from approxmcmc.targets.tables import listed, read_numbers
from approxmcmc.targets.tall_data import Prior, checked_prior_scale


class GroupedTarget(QuadratureTerms, PredictiveTarget):
    r"""Rows of a generalised linear model in groups with random intercepts, integrated out by adaptive quadrature.

    ``y_gi ~ family(x_gi' beta + offset_gi + sigma z_g)``, ``z_g ~ N(0, 1)``; the terms are the G groups.

    Parameters
    ----------
    X
        Predictors, shape (n, p); a DataFrame's columns become the labels of `beta`. A column of text or categories
        becomes a column of 0 and 1 for each level but the first, its reference level, such as ``town[york]``; without
        `intercept` the first of them has one for every level.
    y
        Responses, shape (n,).
    groups
        The label of each row's group, shape (n,).
    family
        ``"logit"``, ``"probit"``, ``"cloglog"``, ``"binomial"`` (with `trials`), ``"poisson"``;
        ``"negative binomial"``, ``"gamma"`` or ``"weibull"`` (see `shape`); or a function
        ``loglik_eta(eta, y) -> float`` in plain Python, log-concave in eta.
    derivatives_eta
        ``derivatives_eta(eta, y) -> (float, float)`` of the user's function; None: by differences.
    trials
        Trials of each row of a binomial distribution, shape (n,).
    shape
        Shape r of a negative binomial distribution, whose variance at mean m is m + m^2 / r; of a gamma distribution,
        whose variance is m^2 / r; or of a Weibull distribution with scale exp(eta). None: the shape is a parameter,
        ``shape`` in the trace.
    shape_scale
        Median of a shape that is a parameter: ``log(shape) ~ N(log(shape_scale), 1.5^2)``.
    intercept
        Add a column of ones to X, called "intercept".
    prior_scale, effect_scale
        ``beta_j ~ N(0, prior_scale^2)`` and ``sigma ~ HalfNormal(effect_scale)``.
    prior
        A function ``log_prior(theta) -> float`` that replaces these priors; theta = (beta, sigma), or
        (beta, sigma, log(shape)). Sigma may have either sign, so the function must be even in sigma.
    at
        Point theta around which the nodes' positions are predicted, shape (dim,); None finds the mode.
    n_nodes
        Nodes K of a group; None chooses, see Notes.
    coef_names
        Labels of the columns of X, in place of those of a DataFrame or x0, x1, ...
    offset
        A known part of the predictor, shape (n,), such as a log exposure; None: 0.
    weights
        Known weights w of the rows, positive, shape (n,): each multiplies the log density of its row, so that a row of
        weight 3 is three equal rows. None: 1.

    Attributes
    ----------
    accuracy
        The estimated error of the integral: `accuracy.nats`, see Notes, and the number of groups checked.
    distance_to_model
        The number ``accuracy.nats``.
    reference_levels
        The level with effect 0 of each column of text or categories that has one; also an attribute of the trace.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a setting is out of range, or responses lie outside the family's support.
    IncompatibleError
        When the user's function is not log-concave.

    Notes
    -----
    The trace holds ``beta`` and ``sigma``. The chain samples sigma with either sign, because the posterior is smooth
    and symmetric in it, so a scale of 0 is no boundary; the trace holds abs(sigma).

    Guarantee: the terms are one function of theta, and an exact sampler is exact for *this* function. Its distance from
    the integral is ``accuracy.nats``: the largest change of (sum_K - sum_2K), where sum_2K takes many Newton steps,
    between the centre and other points. These are draws of the Laplace approximation widened by a half, and 3 standard
    deviations of sigma both ways, then 6, 12 and so on until the log posterior is 4.5 nats below the mode's. K is the
    first of 8, 16, 24, 32, 48, 64 for which the change is at most 0.01; if none is, 64, with more Newton steps. Beyond
    3 standard deviations a change counts in ``accuracy.nats`` by the share of the posterior there; above 0.01 it is
    a warning, here and in `diagnose`, also where `n_nodes` is given. Errors of quadrature fall geometrically in K,
    so the difference is nearly the error of K. The trace stores it as ``setup_quadrature_nats``. If there are more
    than 4000 groups, 4000 random ones represent them, and two standard errors are added.

    X, y, groups, trials, offset and weights may be sources (`approxmcmc.sources`): their rows are sorted by group, a
    million at a time, in a mapped scratch file of 8 (p + 3) bytes a row, and memory holds numbers of groups only; to
    make a target with weights takes some 40 bytes a row for a moment.

    References
    ----------
    Liu and Pierce (1994); Louis (1982).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> shop = rng.integers(50, size=400)
    >>> y = rng.poisson(np.exp(1.0 + 0.5 * rng.normal(size=50)[shop]))
    >>> amc.targets.GroupedTarget(np.ones((400, 1)), y, shop, family="poisson")  # doctest: +SKIP
    GroupedTarget(poisson, 50 groups, 400 rows, dim=2, 8 nodes)
    """

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        groups: Any,
        *,
        family: str | Callable[..., float] = "logit",
        derivatives_eta: Callable[..., tuple[float, float]] | None = None,
        trials: Any = None,
        shape: float | None = None,
        shape_scale: float = 1.0,
        intercept: bool = False,
        prior_scale: float = 1.0,
        effect_scale: float = 1.0,
        prior: Callable[..., float] | None = None,
        at: Any = None,
        n_nodes: int | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
        weights: Any = None,
    ) -> None:
        check_same_index(X=X, y=y, groups=groups, trials=trials, offset=offset, weights=weights)
        y = response_source(y)
        trials = response_source(trials)
        offset = response_source(offset)
        weights = response_source(weights)
        groups = with_sources(groups)
        columns = read_numbers(X, y, intercept=intercept, coef_names=coef_names)
        self.columns = columns.variables
        self.has_intercept = intercept
        self.given = kept((columns.source, y, groups, trials, offset, weights))
        self.reference_levels = columns.reference_levels
        X = columns.X
        y = columns.y.astype(np.float64, copy=False)
        n_rows = len(y)
        p = len(columns.labels)
        self.family_name = family if isinstance(family, str) else getattr(family, "__name__", type(family).__name__)
        self.family = _family(family, derivatives_eta)
        size = _sizes(self.family_name, y, trials)
        if shape is not None and not (self.family.has_shape and 0.0 < shape < math.inf):
            of_shape = ", ".join(
                repr(name) for name, family_entry in FAMILIES.items() if family_entry.has_shape and name != "normal"
            )
            raise InvalidInputError(
                f"{speaker()}: shape= must be positive and finite for the families {of_shape}, or None for a "
                f"parameter, and left out for others; found {shape!r} with {self.family_name!r}"
            )
        self.shape = shape
        if not 0.0 < float(shape_scale) < math.inf:
            raise InvalidInputError(f"{speaker()}: shape_scale must be a positive finite number, found {shape_scale!r}")
        self.shape_scale = shape_scale
        has_unknown_shape = self.family.has_shape and shape is None
        self.n_columns = self.n_effects = 1
        self.grouping = grouping(groups, n_rows)
        self.variables = group_variables(columns.labels, ["intercept"], positive=SHAPE if has_unknown_shape else None)
        self._refuse_convex(y, size)
        offsets = _offset(offset, n_rows)
        table = self._link(p, has_offset=offsets is not None)
        self._arrange_rows(X, y, size, table, offsets, weights)
        for name, value in {"prior_scale": prior_scale, "effect_scale": effect_scale}.items():
            checked_prior_scale(value, name)
        if math.isinf(effect_scale):
            raise InvalidInputError(
                f"{speaker()}: effect_scale must be finite, found {effect_scale!r}; with a flat prior of sigma the "
                "posterior may have no finite mass"
            )
        log_shape = [math.log(shape_scale)] if has_unknown_shape else []
        means = np.array([*[0.0] * (p + 1), *log_shape])
        scales = np.array([*[prior_scale] * p, effect_scale, *[LOG_SHAPE_SCALE] * len(log_shape)], dtype=np.float64)
        self.prior = NormalPrior(means, scales) if prior is None else Prior(1.0, prior)
        self.center = np.array([*[0.0] * p, 0.5 * effect_scale, *log_shape])
        if at is not None:
            at = checked_array(at, "at").astype(np.float64)
            if at.shape != (self.variables.size,):
                raise InvalidInputError(f"{speaker()}: at must have shape ({self.variables.size},), found {at!r}")
        if n_nodes is not None:
            self.set_rule(n_nodes=n_nodes)
        self.place(at, n_nodes)
        if not self.accuracy.nats <= LARGEST_ERROR:
            warn(
                f"{speaker()}: with {self.n_nodes} nodes the error of the log-likelihood changes by "
                f"{self.accuracy.nats:.2g} nats over the posterior, above {LARGEST_ERROR}; give more nodes by "
                "n_nodes=, a prior without a heavy tail of sigma, or sample the effects as parameters",
                SamplingWarning,
            )

    @property
    def cuts(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of groups, and of rows in the sources, at which parts may begin: parts keep groups whole."""
        return self.grouping.cuts, self.grouping.start[self.grouping.cuts]

    variables: GroupVariables
    rule_and_sizes: tuple[np.ndarray, np.ndarray]
    table: tuple[np.ndarray, ...]
    """Nodes, sizes, and the table of the link, of a target without rows."""

    def without_rows(self) -> Self:
        """Return the target without its rows, but with its rule and the table of its link."""
        bare: Self = super().without_rows()
        bare.rule_and_sizes = self.arrays.rule, self.arrays.sizes
        bare.table = self.data[CORE:]
        return bare

    @names_itself()
    def with_rows(self, given: tuple[Any, ...], n_obs: int) -> Self:
        """Return this model with other rows, which must be those of `n_obs` groups.

        `given` is (X, y, groups, trials, offset, weights).

        Raises
        ------
        IncompatibleError
            If the rows belong to another number of groups.
        """
        other = copy.copy(self)
        (X, y, labels, trials, offset, weights) = given
        other.given = None
        other.grouping = grouping(labels, len(y))
        if len(other.grouping.labels) != n_obs:
            raise IncompatibleError(
                f"GroupedTarget: rows of {n_obs} groups are needed, found {len(other.grouping.labels)} groups; a group "
                "must not be split, so give all rows of each"
            )
        size = _sizes(self.family_name, y, trials)
        offsets = _offset(offset, len(y))
        other._arrange_rows(X, y, size, self.table, offsets, weights)
        rule, sizes = self.rule_and_sizes
        other._set_arrays(rule=rule, sizes=sizes)
        other.refit()
        return other

    def _arrange_rows(
        self,
        X: Any,
        y: np.ndarray,
        size: np.ndarray,
        table: Any,
        offset: Any,
        weights: Any,
    ) -> None:
        """Sort the rows of this family by group, with their weights if they have any."""
        self.stack = Stack(self.family)
        known_weights = None if weights is None else checked_weights(weights, len(y))
        self.has_offset = offset is not None
        self.has_weights = weights is not None
        self.arrange(_ones(len(y), 1), X, y, size, self.grouping, table, weight=known_weights, offset=offset)

    @property
    def scale_coordinates(self) -> list[int]:
        """The index of sigma in theta."""
        return [self.variables.n_coef]

    def _link(self, p: int, *, has_offset: bool) -> Any:
        """Return the table that maps theta to phi: beta unchanged, 1 for an offset, abs(sigma), the log of a shape."""
        places = [*((j, AS_IT_IS) for j in range(p)), (p, ABS)]
        columns = p + has_offset
        products: list[tuple[int, float, list[int]]] = [(j, 1.0, [j]) for j in range(p)]
        if has_offset:
            products.append((p, 1.0, []))
        products.append((columns, 1.0, [p]))
        logs = [False] * (columns + 1)
        if self.family.has_shape:
            if self.shape is None:
                places.append((p + 1, EXP))
                products.append((columns + 1, 1.0, [p + 1]))
            else:
                products.append((columns + 1, float(self.shape), []))
            logs.append(True)
        return link(places, products, logs)

    def _refuse_convex(self, y: np.ndarray, size: np.ndarray) -> None:
        rows = np.unique(np.linspace(0, len(y) - 1, 64).astype(int))
        for eta in (-3.0, -1.0, 0.0, 1.0, 3.0):
            for i in rows:
                curvature = self.family.derivatives(eta, y[i], size[i], self.shape or self.shape_scale)[1]
                if not curvature <= 1e-6:
                    raise IncompatibleError(
                        f"GroupedTarget: the family must be log-concave in eta, so that a group has one mode; at eta = "
                        f"{eta} and y = {y[i]:g} the second derivative of {self.family_name} is {curvature:.3g}. "
                        "For such a family, as a mixture or Student's t, sample all effects, for instance by NUTS"
                    )

    @property
    def group_labels(self) -> np.ndarray:
        """Labels of the groups, sorted."""
        return self.grouping.labels

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: those of the integral, and the reference level of each column of text, as one text."""
        named = {"reference_levels": listed(self.reference_levels)} if self.reference_levels else {}
        return {**super().setup_attrs, **named}

    @property
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """Return an empty dict: an effect is one number."""
        return {}

    def draw_latents(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return exact draws of sigma z_g; shape (thetas, groups)."""
        return np.abs(thetas[:, self.scale_coordinates]) * self.draw_standard_effects(rng, thetas, groups)[..., 0]

    @names_itself("predict for {}")
    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsInGroups:
        """Return `rows` for a prediction: a table or matrix as X of the target; None means the target's own rows.

        New rows need ``groups``, labels of groups of the target or of new groups, and ``trials`` if the family has
        trials; they may have an ``offset``, by default 0.
        """
        if rows is None:
            refuse_columns(columns)
            return self._own_rows()
        groups, trials, offset = (columns.pop(name, None) for name in ("groups", "trials", "offset"))
        refuse_columns(columns)
        check_same_index(rows=rows, groups=groups, trials=trials, offset=offset)
        n = len(rows)
        if (trials is None) == (self.family_name == "binomial"):
            raise InvalidInputError(f"{speaker()}: trials= goes with family='binomial' and no other")
        known_offset = numbers_of_rows(offset, "offset", n)
        return RowsInGroups(
            self,
            self.family,
            design_of_new_rows(self, rows, known_offset),
            groups_of_new_rows(self, groups, n),
            size=numbers_of_rows(trials, "trials", n),
            log_shape=math.log(self.shape or 1.0),
            labels=labels_of_rows(rows),
        )

    def _own_rows(self) -> RowsInGroups:
        """Return the rows of the target, which are sorted by group, in the order in which they were given."""
        if self.has_weights:
            raise IncompatibleError(
                f"{speaker()}: rows with weights are stored with their weights; give them as new ones: rows=X, "
                "groups=groups"
            )
        p = self.variables.n_coef
        [design_rows] = self.arrays.columns
        [responses] = self.arrays.responses
        places = [*range(p), *([p] if self.has_offset else [])]
        predictor = Predictor((1, 1 + len(places)), places)
        no_codes = np.empty((len(design_rows), 0), dtype=np.int32)
        order = np.empty(len(design_rows), dtype=np.int64)
        order[self.grouping.order] = np.arange(len(order))
        return RowsInGroups(
            self,
            self.family,
            Design(p, design_rows, no_codes, (), [predictor]),
            own_groups(self.grouping),
            order=order,
            size=responses[:, SIZE] if self.family_name == "binomial" else None,
            log_shape=math.log(self.shape or 1.0),
        )

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The responses in the order in which they were given; none if they have weights or are on disk."""
        if self.has_weights or is_mapped(self.arrays.responses):
            return {}
        y = np.empty(len(self.grouping.order))
        y[self.grouping.order] = self.arrays.responses[0, :, RESPONSE]
        return {"y": y}

    def initial_point(self) -> np.ndarray:
        """Return the theta around which the nodes were placed: the mode, or `at`."""
        return self.center.copy()

    def _identity(self) -> str:
        return content_hash("GroupedTarget", self.family_name, content_id(self.family.term))

    def __repr__(self) -> str:
        """Show family and sizes."""
        sizes = f"{self.n_obs} groups, {self.n_rows} rows, dim={self.variables.size}"
        return f"GroupedTarget({self.family_name}, {sizes}, {self.n_nodes} nodes)"


def _family(family: str | Callable[..., float], derivatives: Callable[..., tuple[float, float]] | None) -> Family:
    if callable(family):
        term = plain_function(family, "family")
        return of_user(term, derivatives)
    if family == "normal":
        raise InvalidInputError(f"{speaker()}: normal rows need no quadrature; use targets.NormalGroups(X, y, groups)")
    if family not in FAMILIES:
        names = ", ".join(repr(name) for name in FAMILIES if name != "normal")
        raise InvalidInputError(
            f"{speaker()}: family must be one of {names}, or a function (eta, y), found {family!r}. The "
            "integrand of a group must have one mode, so terms must be log-concave in eta; those of Student's t and "
            "of a beta distribution are not. A row of a softmax has a predictor for each class, so the integral would "
            "have as many dimensions. Ordered categories, and functions of two predictors, are not built. Sample the "
            "effects of such groups as parameters, for instance by NUTS"
        )
    return FAMILIES[family]


def _sizes(family: str, y: np.ndarray, trials: Any) -> np.ndarray:
    """Return the trials of each row (default 1); raise if `trials` does not go with `family`, or y is impossible."""
    if (trials is None) == (family == "binomial"):
        raise InvalidInputError(
            f"{speaker()}: trials= goes with family='binomial' and no other; found family={family!r}"
        )
    size = _ones(len(y))
    if trials is not None:
        size = np.broadcast_to(checked_array(trials, "trials").astype(np.float64, copy=False), y.shape)
    for lo in range(0, len(y), ROWS) if family in FAMILIES else ():
        responses = y[lo : lo + ROWS]
        fits = FAMILIES[family].fits(responses, size[lo : lo + ROWS])
        if not fits.all():
            row = int(np.flatnonzero(~fits)[0])
            raise InvalidInputError(
                f"{speaker()}: responses of {family!r} are {FAMILIES[family].support}, found {responses[row]:g} in row "
                f"{lo + row}"
            )
    return size


def _offset(offset: Any, n: int) -> np.ndarray | None:
    """Return a user's offset as n floats, or None."""
    if offset is None:
        return None
    offsets = checked_array(offset, "offset").astype(np.float64, copy=False)
    if offsets.shape != (n,):
        raise InvalidInputError(f"{speaker()}: offset must hold {n} numbers, as y does, found shape {offsets.shape}")
    return offsets


def _ones(*shape: int) -> np.ndarray:
    return np.broadcast_to(1.0, shape)
