"""Base of all targets of groups by quadrature: nodes, terms, derivatives and draws of effects."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.contracts import LARGEST_DISTANCE_TO_MODEL, TermWork
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, INDICES, MATRIX, VECTOR, bind, closure, type_of
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.expansion.general import ExpandsItself
from approxmcmc.families.stack import Stack, columns_of
from approxmcmc.families.weighted import weighted_rows
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.mode import laplace
from approxmcmc.targets.groups.accuracy import Accuracy, judge
from approxmcmc.targets.groups.grouping import Grouping, by_group
from approxmcmc.targets.groups.linked import WITHOUT_WARNINGS, LinkedTerms
from approxmcmc.targets.groups.louis import make_expand, pull_back
from approxmcmc.targets.groups.newton import make_newton, make_refit
from approxmcmc.targets.groups.quadrature import (
    GroupArrays,
    gauss_hermite,
    make_add_gradient,
    make_log_joint,
    make_log_terms,
    make_nodes,
)
from approxmcmc.targets.groups.row_sums import (
    RowSums,
    make_add_scores,
    make_add_shared_scores,
    make_add_shared_terms,
    make_add_terms,
    make_prepare,
    make_prepare_nothing,
)
from approxmcmc.targets.groups.tangents import make_draw, make_draw_latents, make_value

SEARCHING_STEPS = 30  # Newton steps in a group, during the search for the centre
STEPS = 2  # Newton steps afterwards at least: from a predicted start, 2 are as good as many over most of the posterior
# Nodes for each effect to try, by the number of effects. Nodes of a group in multiples of 8 fill vector registers: with
# one effect 12 are slower than 16; with two, 12 x 12 are a multiple.
NODES = {1: (8, 16, 24, 32, 48, 64), 2: (8, 12, 16, 24)}
# Tolerance of the search for the mode, in posterior standard deviations: Fisher's gradients differ from those of the
# sum over nodes by some 1e-4 of one, so that a search for a nearer point stalls. With 1e5 groups it took seven passes
# instead of three.
NEAR_THE_MODE = 1e-3
LARGEST_ERROR = LARGEST_DISTANCE_TO_MODEL  # nats by which the summed error may change over the posterior
CORE = len(GroupArrays._fields)  # the table of a link comes after these arrays
SHAPE_STEP = 1e-4  # step of differences in the logarithm of a shape
# of a search without derivatives: largest change of a coordinate, most evaluations
REACH = 4.0
MOST_SEARCHED = 2000
# Operations for a row: at a node, in a step of Newton's method, and for its slope at a node; last, for a group. With a
# logit, a row takes 10 ns if it shares its effect, else 40; a group takes 260.
NODE = 14.0
NEWTON = 40.0
GRADIENT = 40.0
GROUP = 1700.0
SHARED = 0.15  # share of a row's operations at nodes and in Newton's method that remains if exponentials are shared


class QuadratureTerms(LinkedTerms, ExpandsItself):
    """Groups of rows, y ~ family(X beta + Z L u), whose effects are integrated out by adaptive quadrature.

    Subclasses set `stack`, `center`, `n_columns` of Z, `n_effects` in u and, by `arrange`, `data`; then they call
    `place`.
    """

    stack: Stack
    """The functions of rows: those of one family, or of two."""
    center: np.ndarray
    accuracy: Accuracy
    n_columns: int
    n_effects: int
    share_effect: bool
    """Whether all rows have one effect with the same factor."""

    def arrange(
        self,
        Z: Any,
        X: Any,
        y: np.ndarray,
        size: np.ndarray,
        groups: Grouping,
        table: tuple[np.ndarray, ...],
        weight: np.ndarray | None = None,
        code: np.ndarray | None = None,
        offset: np.ndarray | None = None,
    ) -> None:
        """Sort the rows of Z, X, `y` and `size` (see `families`) by group; set `data`, with the table of a `link`.

        `weight` multiplies the log densities of rows of one family, if it is given; `stack` then becomes that of the
        weighted family. `code` says which of two families each row follows. `offset` is a last column of X, whose
        entry of phi is 1.
        """
        start = groups.start
        q = self.n_columns
        weighted_constants = None
        if weight is not None:
            [family] = self.stack.families
            weighted_constants = (weight * family.constants(y, size))[groups.order]
            family, y, size = weighted_rows(family, y, size, weight)
            self.stack = Stack(family)
        self.n_obs = len(start) - 1
        self.n_rows = len(y)
        responses = by_group(columns_of(y, size, code), groups)
        arrays = GroupArrays(
            columns=by_group([Z, X, *([] if offset is None else [offset])], groups)[None],
            responses=responses[None],
            spans=np.column_stack([start[:-1], start[1:]]),
            starts=np.zeros((self.n_obs, q + q * (q + 1) // 2)),
            rule=gauss_hermite(NODES[self.n_effects][0], self.n_effects),
            sizes=np.array([[SEARCHING_STEPS, q]]),
        )
        self.data = (*arrays, *table)
        self.share_effect = q == self.n_effects == 1 and bool((Z[:, 0] == Z[0, 0]).all())
        if weighted_constants is not None:
            self.omitted_constants = np.add.reduceat(weighted_constants, start[:-1])
            return
        constants = [self._constants_of(responses, start[g : h + 1]) for g, h in groups.spans()]
        self.omitted_constants = np.concatenate(constants)

    def _constants_of(self, responses: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return the sums, over the rows of some groups, of what their terms omit."""
        each = self.stack.constants(responses[start[0] : start[-1]])
        return np.add.reduceat(each, start[:-1] - start[0])

    @property
    def scale_coordinates(self) -> list[int]:
        """Indices in theta of scales of the effects; the accuracy is checked along them."""
        return [self.variables.size - 1]

    @property
    def one_column(self) -> bool:
        """Whether Z has one column, which is then a constant of kernels: terms take 5 % and gradients 10 % less time.

        Kernels for more columns read their number from the data, so that models share them.
        """
        return self.n_columns == 1

    @property
    def arrays(self) -> GroupArrays:
        """The data without the table of the link, by name."""
        return GroupArrays(*self.data[:CORE])

    def _set_arrays(self, **changed: np.ndarray) -> None:
        self.data = (*self.arrays._replace(**changed), *self.data[CORE:])

    @property
    def n_nodes(self) -> int:
        """The number of nodes of each effect of a group."""
        return round(self.arrays.rule.shape[2] ** (1.0 / self.n_effects))

    @property
    def n_steps(self) -> int:
        """Least number of Newton steps that place a group's nodes at each theta; more follow one that is not short."""
        return int(self.arrays.sizes[0, 0])

    def set_rule(self, *, n_nodes: int | None = None, n_steps: int | None = None) -> None:
        """Set the number of nodes, or the least number of Newton steps; this changes the target."""
        if n_nodes is not None:
            self._set_arrays(rule=gauss_hermite(n_nodes, self.n_effects))
        if n_steps is not None:
            self._set_arrays(sizes=np.array([[n_steps, self.n_columns]]))

    def place(self, at: np.ndarray | None = None, n_nodes: int | None = None) -> None:
        """Store the starts of Newton's method at the posterior mode, or at the theta `at`; then choose the nodes.

        If there is no mode, for instance because the prior has an edge there, the highest point found replaces it. With
        `n_nodes` the number of nodes stays as it was set before.
        """
        self.refit()
        fit: Laplace | None = None
        if at is None:
            try:
                fit = laplace(self, tolerance=NEAR_THE_MODE)
                self.center = fit.mode
            except (InvalidInputError, NotFiniteError):
                self.center = highest_point(self)
        else:
            self.center = at
        self.refit()
        self.set_rule(n_steps=STEPS)
        self.known_fit = fit
        self.accuracy = judge(self, fit, None if n_nodes else LARGEST_ERROR, NODES[self.n_effects])
        self.distance_to_model = self.accuracy.nats

    def refit(self) -> None:
        """Compute (c, I) of all groups at the centre, from which starts are predicted, and store them in `data`."""
        starts = np.empty_like(self.arrays.starts)
        core = self.data[:CORE]
        phi = self.phis(self.center)
        sizes = self.one_column, self.n_effects, self.stack.has_shape
        signature = nb.void(*map(type_of, (phi, core, starts)))
        parts = self._sums().prepare, self._newton(), self.stack.read, self.stack.derivatives
        bind(make_refit, *sizes, *parts, signature=signature, fastmath=BATCH_FASTMATH)(phi, core, starts)
        self._set_arrays(starts=starts)

    # --- kernels ---

    def _sums(self) -> RowSums:
        """Return the functions that sum over a group's rows; they share exponentials if the rows share one effect."""
        stack = self.stack
        K = self.n_effects
        options = {"fastmath": BATCH_FASTMATH}
        scores = closure(make_add_scores, stack.read, stack.derivatives, K, **options)
        terms = closure(make_add_terms, stack.read, stack.term, K, **options)
        if stack.merges_rows is None or not self.share_effect:
            return RowSums(closure(make_prepare_nothing, **options), scores, terms)
        return RowSums(
            closure(make_prepare, stack.merges_rows, **options),
            closure(make_add_shared_scores, scores, stack.merges_rows, **options),
            closure(make_add_shared_terms, terms, stack.merges_rows, **options),
        )

    def _newton(self) -> Any:
        parts = self._sums().add_scores, self.n_effects, self.share_effect
        return closure(make_newton, *parts, fastmath=BATCH_FASTMATH)

    def _nodes(self) -> Any:
        sums = self._sums()
        stack = self.stack
        parts = stack.has_shape, sums.prepare, self._newton(), sums.add_terms, stack.read, stack.of_row
        return closure(make_nodes, self.one_column, self.n_effects, *parts, fastmath=BATCH_FASTMATH)

    def _parts(self) -> tuple[Any, ...]:
        stack = self.stack
        sizes = self.one_column, self.n_effects, stack.has_shape
        return *sizes, self._nodes(), stack.read, stack.derivatives, stack.in_shape, stack.of_row

    def _log_terms(self) -> Any:
        return self._linked_terms(closure(make_log_terms, self.n_effects, self._nodes(), fastmath=BATCH_FASTMATH))

    def _term_gradients(self) -> Any:
        return self._linked_gradient(closure(make_add_gradient, *self._parts(), fastmath=BATCH_FASTMATH))

    def compile_expansion(self) -> Any:
        """Compile the kernel of second-order expansions of groups, by Louis' identity; in a shape, by differences."""
        core_type = type_of(self.data[:CORE])
        cube = nb.Array(nb.float64, 3, "C")
        signature = nb.void(VECTOR, core_type, INDICES, nb.int64, nb.int64, VECTOR, MATRIX, cube)
        kernel = bind(make_expand, *self._parts(), signature=signature, fastmath=BATCH_FASTMATH)

        def in_phi(
            phi: np.ndarray, core: Any, order: np.ndarray, lo: int, hi: int
        ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            n = hi - lo
            d = len(phi)
            found = np.empty(n), np.empty((n, d)), np.empty((n, d, d))
            kernel(phi, core, order, lo, hi, *found)
            return found

        @WITHOUT_WARNINGS
        def expand(theta: np.ndarray, data: Any, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
            where = data[:CORE], order, lo, hi
            phi, jacobian, curvature = self.derivatives_of_phi(theta)
            values, slopes, hessians = in_phi(phi, *where)
            if self.stack.has_shape:
                step = SHAPE_STEP * np.eye(len(phi))[-1]
                hessians[..., -1] = (in_phi(phi + step, *where)[1] - in_phi(phi - step, *where)[1]) / (2.0 * SHAPE_STEP)
            out[:] = pull_back(values, slopes, hessians, jacobian, curvature)

        return expand

    def own_terms(self, theta: np.ndarray) -> np.ndarray:
        """Return the terms l_g of all groups at theta; shape (G,)."""
        compiled = self.compile()
        return full_terms(compiled.log_terms, theta, compiled.data, self.n_obs)

    def log_joint(self, theta: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return log p(y_g, u_g) of all groups, constants included, at effects u (G, K)."""
        stack = self.stack
        out = np.empty(self.n_obs)
        arguments = self.phis(theta), self.data[:CORE], u, out
        parts = self.one_column, self.n_effects, stack.has_shape, stack.read, stack.term, stack.of_row
        signature = nb.void(*map(type_of, arguments))
        bind(make_log_joint, *parts, signature=signature, fastmath=BATCH_FASTMATH)(*arguments)
        return out + self.omitted_constants

    @property
    def term_work(self) -> TermWork:
        """Counted work of a term: predictors, steps of Newton's method, and all nodes, for each row of the group."""
        assert self.n_rows is not None
        rows = self.n_rows / self.n_obs
        arrays = self.arrays
        columns = arrays.columns.shape[2]
        n_nodes_of_group = arrays.rule.shape[2]
        share = SHARED if self.share_effect and self.stack.merges_rows is not None else 1.0
        placed = GROUP + rows * (2.0 * columns + share * (NEWTON * self.n_steps + NODE * n_nodes_of_group))
        slopes = rows * GRADIENT * n_nodes_of_group
        code = "groups" if self.keeps_kernels else "graph"
        return TermWork(placed, placed + slopes, 8.0 * rows * (columns + 2.0), code)  # type: ignore[arg-type]

    # --- effects ---

    def draw_standard_effects(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return draws of u given the rows, shape (thetas, groups, K): exact if K = 1, else see `make_draw_latents`."""
        sums = self._sums()
        K = self.n_effects
        value = closure(make_value, sums.add_terms, K, fastmath=BATCH_FASTMATH)
        draw = closure(make_draw, value, sums.add_scores, K, fastmath=BATCH_FASTMATH)
        phis = self.phis(thetas)
        core = self.data[:CORE]
        out = np.empty((len(thetas), len(groups), K))
        arguments = rng, phis, core, groups.astype(np.int64), out
        parts = self.one_column, K, self.stack.has_shape, sums.prepare, self._newton(), draw
        kernel = bind(make_draw_latents, *parts, signature=nb.void(*map(type_of, arguments)))
        kernel(*arguments)
        return out

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the number of nodes for each effect, and the error of the log-likelihood in nats.

        The error is the largest change over the posterior; a constant error does not count.
        """
        return {"setup_quadrature_nodes": self.n_nodes, "setup_quadrature_nats": self.accuracy.nats}


def highest_point(target: QuadratureTerms) -> np.ndarray:
    """Return a point of high log posterior near the centre of `target`, by a search without derivatives.

    No coordinate moves by more than `REACH`: far away the density may have no bound, where a scale with a flat prior
    runs to 0.
    """
    from scipy.optimize import Bounds, minimize

    compiled = target.compile()

    def minus_log_density(theta: np.ndarray) -> float:
        terms = full_terms(compiled.log_terms, theta, compiled.data, target.n_obs)
        value = float(compiled.log_prior(theta) + terms.sum())
        return -value if np.isfinite(value) else 1e300

    near = Bounds(target.center - REACH, target.center + REACH)
    limits = {"maxiter": 20, "maxfev": MOST_SEARCHED}
    return np.asarray(minimize(minus_log_density, target.center, method="Powell", bounds=near, options=limits).x)
