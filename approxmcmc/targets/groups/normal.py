r"""Normal rows in groups with normal effects, which are integrated out in closed form, so a term is a group.

.. math:: y_{gi} = x_{gi}' \beta + z_{gi}' b_g + \varepsilon_{gi}, \quad b_g \sim N(0, LL'), \quad
          \varepsilon_{gi} \sim N(0, \tau^2 e_{gi}^2).

Given theta the groups are independent, and the likelihood of each group is normal (Laird and Ware 1982). The rows of a
group are reduced once to a triangle of (q + p + 1)^2 numbers, so a step reads no row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import PredictiveTarget
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.families.normal import NORMAL
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import check_same_index, checked_weights, response_source
from approxmcmc.targets.groups.grouping import grouping
from approxmcmc.targets.groups.link import AS_IT_IS, EXP, link
from approxmcmc.targets.groups.normal_terms import NormalTerms, triangles
from approxmcmc.targets.groups.predictive import (
    RowsInGroups,
    design_of_new_rows,
    groups_of_new_rows,
    numbers_of_rows,
)
from approxmcmc.targets.groups.variables import NOISE, GroupVariables, group_variables
from approxmcmc.targets.new_rows import in_memory, labels_of_rows, refuse_columns
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.tables import listed, read_numbers
from approxmcmc.targets.tall_data import Prior, checked_prior_scale

LOG_NOISE_SCALE = 1.5  # standard deviation of the prior of log(noise): two of them are a factor of 20


class NormalGroups(NormalTerms, PredictiveTarget):
    r"""Normal rows in groups with random intercepts or slopes, which are integrated out in closed form.

    ``y_gi = x_gi' beta + z_gi' b_g + noise e_gi epsilon``, ``b_g ~ N(0, LL')``; the terms are the G groups.

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
    slopes
        Predictors with slopes that differ from group to group, shape (n,) or (n, k), in addition to the random
        intercept.
    errors
        Known standard deviations of the rows, shape (n,), such as the standard errors of published estimates; the model
        then has no ``noise``.
    weights
        Known weights w of the rows, positive, shape (n,), as of a :class:`LinearRegression`: the errors of a row are
        normal with variance noise^2 / w. None: 1. Not together with `errors`.
    intercept
        Add a column of ones to X, called "intercept".
    prior_scale, effect_scale
        ``beta_j ~ N(0, prior_scale^2)``; the entries of L are N(0, effect_scale^2), so that the standard deviation of a
        random intercept is half-normal.
    noise_scale
        Median of the prior of ``noise``; log(noise) is normal with standard deviation 1.5.
    prior
        A function ``log_prior(theta) -> float`` that replaces these priors; theta = (beta, L row by row, log noise).
    coef_names
        Labels of the columns of X, in place of those of a DataFrame or x0, x1, ...
    offset
        A known part of the mean, shape (n,); None: 0.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a value is not finite, or an error or a scale is not positive.

    Notes
    -----
    The trace holds ``beta``, ``sigma`` (with slopes ``effect_cov``) and ``noise``. The chain samples entries of L with
    either sign: the posterior is smooth, and the same if a column of L changes its sign, so a scale of 0 is no
    boundary. The integral is exact; terms are right to rounding, even if effects or responses are large compared with
    the noise. Memory: 8 (q + p + 1)^2 bytes for each group, q = 1 + slopes. X, y, groups and slopes may be sources
    (`approxmcmc.sources`), which are read a million rows at a time. `approxmcmc.latents` draws the effects b_g.

    References
    ----------
    Laird and Ware (1982).

    Examples
    --------
    Eight schools: estimates with known errors are groups of one row.

    >>> import numpy as np, approxmcmc as amc
    >>> effect, error = [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]
    >>> ones = np.ones((8, 1))
    >>> amc.targets.NormalGroups(ones, effect, range(8), errors=error, prior_scale=20.0, effect_scale=10.0)
    NormalGroups(8 groups, 8 rows, dim=2)
    """

    variables: GroupVariables

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        groups: Any,
        *,
        slopes: Any = None,
        errors: Any = None,
        weights: Any = None,
        intercept: bool = False,
        prior_scale: float = 1.0,
        effect_scale: float = 1.0,
        noise_scale: float = 1.0,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
    ) -> None:
        check_same_index(X=X, y=y, groups=groups, slopes=slopes, errors=errors, weights=weights, offset=offset)
        given_columns = read_numbers(X, response_source(y), intercept=intercept, coef_names=coef_names)
        self.reference_levels = given_columns.reference_levels
        self.columns = given_columns.variables
        self.has_intercept = intercept
        X = given_columns.X
        coef = given_columns.labels
        y = given_columns.y.astype(np.float64, copy=False)
        self.n_rows = len(y)
        if offset is not None:
            offsets = checked_array(response_source(offset), "offset").astype(np.float64, copy=False)
            if offsets.shape != y.shape:
                raise InvalidInputError(f"{speaker()}: offset must hold {len(y)} numbers, found shape {offsets.shape}")
            y = y - offsets
        columns = [np.broadcast_to(1.0, (self.n_rows, 1)), X, y]
        if slopes is not None:
            slope_columns = checked_array(slopes, "slopes")
            if slope_columns.ndim not in (1, 2) or len(slope_columns) != self.n_rows:
                raise InvalidInputError(
                    f"{speaker()}: slopes must have {self.n_rows} rows, found shape {slope_columns.shape}"
                )
            columns.insert(1, slope_columns.reshape(self.n_rows, -1))
        self.n_effects = self.n_columns = sum(array.shape[1] for array in columns[:-2])
        self.grouping = grouping(groups, self.n_rows)
        sizes = self.grouping.sizes.astype(np.float64)
        log_weights = np.zeros(len(sizes))
        factors = _factors(errors, weights, self.n_rows)
        if factors is not None:
            columns = [np.column_stack(columns) * factors[:, None]]
            log_weights = np.add.reduceat(np.log(factors)[self.grouping.order], self.grouping.start[:-1])
        self.knows_noise = errors is not None
        self.n_obs = len(sizes)
        self.effect_names = ["intercept", *(f"slope_{j}" for j in range(1, self.n_effects))]
        self.variables = group_variables(coef, self.effect_names, positive=None if self.knows_noise else NOISE)
        self.data = triangles(columns, self.grouping), np.column_stack([sizes, log_weights]), *self._link()
        n_scales = self.variables.n_scales
        noise = [] if self.knows_noise else [LOG_NOISE_SCALE]
        for name, value in {"prior_scale": prior_scale, "effect_scale": effect_scale}.items():
            checked_prior_scale(value, name)
        if not 0.0 < noise_scale < np.inf:
            raise InvalidInputError(f"{speaker()}: noise_scale must be positive and finite, found {noise_scale!r}")
        scales = np.array([*[prior_scale] * len(coef), *[effect_scale] * n_scales, *noise], dtype=np.float64)
        means = np.zeros(len(scales))
        if noise:
            means[-1] = np.log(noise_scale)
        self.prior = NormalPrior(means, scales) if prior is None else Prior(1.0, prior)
        L = 0.5 * effect_scale * np.eye(self.n_effects)[np.tril_indices(self.n_effects)]
        self._start = np.concatenate([np.zeros(len(coef)), L, means[-1:] if noise else []])

    def _link(self) -> Any:
        """Return the table that maps theta to phi: L gets zeros above its diagonal; all other entries are unchanged."""
        p = self.variables.n_coef
        q = self.n_effects
        d = self.variables.size
        places = [(j, AS_IT_IS) for j in range(d)]
        products = [(j, 1.0, [j]) for j in range(p)]
        for entry, (k, j) in enumerate(zip(*np.tril_indices(q), strict=True)):
            products.append((int(p + k * q + j), 1.0, [p + entry]))
        logs = [False] * (p + q * q)
        if not self.knows_noise:
            places[-1] = (d - 1, EXP)
            products.append((p + q * q, 1.0, [d - 1]))
            logs.append(True)
        return link(places, products, logs)

    def initial_point(self) -> np.ndarray:
        """Return coefficients 0, L with `effect_scale` / 2 on its diagonal, and the median of log(noise), if any."""
        return self._start.copy()

    @property
    def group_labels(self) -> np.ndarray:
        """Labels of the groups, sorted."""
        return self.grouping.labels

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the reference level of each column of text, as one text."""
        named = {"reference_levels": listed(self.reference_levels)} if self.reference_levels else {}
        return {**super().setup_attrs, **named}

    @property
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """Names of a group's effects if there are slopes, else empty."""
        return {} if self.n_effects == 1 else {"effect_name": self.effect_names}

    def draw_latents(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return exact draws of the effects b = L u; shape (thetas, groups), with slopes (thetas, groups, q)."""
        u = self.draw_standard_effects(rng, thetas, groups)
        drawn = np.einsum("tij,tgj->tgi", self.variables.cholesky(thetas), u)
        return drawn[..., 0] if self.n_effects == 1 else drawn

    @names_itself("predict for {}")
    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsInGroups:
        """Return `rows` for a prediction: a table or matrix as X of the target; those of the target are not kept.

        They need ``groups``, labels of groups of the target or of new groups; ``slopes`` and ``errors`` if the target
        has them. They may have an ``offset``, by default 0, and ``weights``, by default 1.
        """
        if rows is None:
            raise IncompatibleError(
                f"{speaker()}: the target keeps sums over the rows of each group, not the rows; give them: rows=X, "
                "groups=groups"
            )
        names = ("groups", "slopes", "errors", "weights", "offset")
        (groups, slopes, errors, weights, offset) = (columns.pop(name, None) for name in names)
        refuse_columns(columns)
        check_same_index(rows=rows, groups=groups, slopes=slopes, errors=errors, weights=weights, offset=offset)
        n = len(rows)
        for name, is_needed, column in (
            ("slopes", self.n_effects > 1, slopes),
            ("errors", self.knows_noise, errors),
        ):
            if is_needed and column is None:
                raise InvalidInputError(
                    f"{speaker()}: the rows of the target have {name}, so the new rows need {name}="
                )
            if column is not None and not is_needed:
                raise InvalidInputError(
                    f"{speaker()}: the rows of the target have no {name}, so the new rows take none"
                )
        factors = _factors(errors, weights, n)
        known_offset = numbers_of_rows(offset, "offset", n)
        return RowsInGroups(
            self,
            NORMAL,
            design_of_new_rows(self, rows, known_offset),
            groups_of_new_rows(self, groups, n),
            slopes=None if slopes is None else self._slope_columns(slopes, n),
            log_shape=0.0 if factors is None else -np.log(factors),
            labels=labels_of_rows(rows),
        )

    def _slope_columns(self, slopes: Any, n: int) -> np.ndarray:
        """Return the predictors with slopes of new rows, shape (n, slopes)."""
        array = checked_array(in_memory(slopes), "slopes").astype(np.float64, copy=False)
        if array.ndim not in (1, 2) or array.size != n * (self.n_effects - 1) or len(array) != n:
            raise InvalidInputError(
                f"{speaker()}: slopes must have the shape ({n}, {self.n_effects - 1}), found {array.shape}"
            )
        return array.reshape(n, -1)

    def _identity(self) -> str:
        return f"{self.n_effects} effects, noise {'known' if self.knows_noise else 'unknown'}"

    def __repr__(self) -> str:
        """Show the sizes."""
        return f"NormalGroups({self.n_obs} groups, {self.n_rows} rows, dim={self.variables.size})"


def _factors(errors: Any, weights: Any, n_rows: int) -> np.ndarray | None:
    """Return the factors that give all rows the same error: 1 / errors, or the square roots of weights; None: 1."""
    if errors is not None and weights is not None:
        raise InvalidInputError(
            f"{speaker()}: errors are the known standard deviations of the rows, so weights have nothing to scale; "
            "give one"
        )
    if errors is not None:
        return 1.0 / _checked_errors(errors, n_rows)
    return None if weights is None else np.sqrt(checked_weights(response_source(weights), n_rows))


def _checked_errors(errors: Any, n_rows: int) -> np.ndarray:
    checked = checked_array(errors, "errors").astype(np.float64)
    if checked.shape != (n_rows,) or not (checked > 0.0).all():
        raise InvalidInputError(f"{speaker()}: errors must be {n_rows} positive numbers, found {checked!r}")
    return checked
