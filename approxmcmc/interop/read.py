"""What every plan needs to know of a PyMC model: its data with their hash, its work as written, and what was tried."""

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pymc as pm
from pymc.backends.arviz import find_constants, find_observations
from pytensor.graph.traversal import toposort

from approxmcmc.contracts import WrittenWork, as_labels, content_hash
from approxmcmc.engine.extras import extra
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.attempts import Reason, attempt
from approxmcmc.interop.densities import initial_point, log_densities, log_density, simplified_densities
from approxmcmc.interop.graphs import operations_of_a_row
from approxmcmc.interop.model_hash import UNREADABLE, model_hash
from approxmcmc.interop.summed.model import SummedModel
from approxmcmc.interop.walk import MULTIPLYING, evaluate, is_shared, leaves, name_of, value_of

# An operation with a branch (switch, clip) is not vectorised, and takes nutpie some 25 ns, as long as 100 simple ones.
OPERATIONS_OF_A_BRANCH = 100.0


class ReadModel:
    """A PyMC model with its data as they are now; a model that was read before shares hashes and faults.

    `given` is the model that was given, `model` the one that is read, `before` the model as it was read before, if it
    was, and `faults` the sentences on unexpected exceptions, see `attempts`.

    Raises
    ------
    IncompatibleError
        When `model` is not a ``pm.Model``.
    """

    def __init__(self, model: Any) -> None:
        self.before: ReadModel | None = model if isinstance(model, ReadModel) else None
        self.given: Any = model if self.before is None else self.before.given
        self.faults: list[str] = [] if self.before is None else self.before.faults
        if not isinstance(self.given, pm.Model):
            raise IncompatibleError(f"from_pymc needs a pm.Model, found {type(model).__name__}")
        self.model = self.given

    @functools.cached_property
    def shared(self) -> list[tuple[Any, str]]:
        """The data that can change, with their hashes; with indicators summed out, those of the model with them."""
        if self.before is not None:
            return self.before.shared
        whole = self.given.given if isinstance(self.given, SummedModel) else self.given
        return [(leaf, content_hash(value_of(leaf))) for leaf in leaves([log_density(whole)]) if is_shared(leaf)]

    @functools.cached_property
    def hash(self) -> str:
        """A hash of the model; unique if the model has operations that cannot be read, so it never matches another."""
        return model_hash(self.model) or f"{UNREADABLE} {uuid.uuid4()}"

    def refuse_changed_data(self) -> None:
        """Raise if the model's data have changed since they were read."""
        changed = [leaf.name for leaf, stored_hash in self.shared if content_hash(value_of(leaf)) != stored_hash]
        if changed:
            raise InvalidInputError(
                f"from_pymc: the data {changed} were changed (pm.set_data) after the target was made from the model; "
                "call from_pymc(model) again"
            )

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, under the names of their variables, as `pm.sample` stores them; missing values are NaN."""
        return _arrays(find_observations(self._with_discrete))

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The model's data containers, as `pm.sample` stores them: without those that are only observed."""
        return _arrays(find_constants(self._with_discrete))

    @property
    def _with_discrete(self) -> Any:
        """The model that is read, or the user's model if its discrete variables were summed out."""
        return self.model.given if isinstance(self.model, SummedModel) else self.model

    @functools.cached_property
    def work(self) -> WrittenWork:
        """The work of NUTS on the graph of the model as it is written."""
        if self.before is not None:
            return self.before.work
        dim = sum(map(np.size, initial_point(self.given).values()))
        sizes = [np.size(evaluate(self.given.rvs_to_values[variable])) for variable in self.given.observed_RVs]
        return work_as_written(self.given, sizes, dim)

    @property
    def fault_attrs(self) -> dict[str, str]:
        """The faults, as an attribute for the trace."""
        return {"reading_faults": "; ".join(self.faults)} if self.faults else {}

    def labels_of_axis(self, variable: Any, axis: int) -> np.ndarray | None:
        """Return the model's labels of an axis of a variable, None if it has none."""
        dims = self.model.named_vars_to_dims.get(variable.name)
        labels = self.model.coords.get(dims[axis]) if dims else None
        return None if labels is None else as_labels(labels)


def _arrays(data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return data as arrays; missing values become NaN."""
    return {
        str(name): np.ma.filled(values.astype(float), np.nan) if np.ma.isMaskedArray(values) else np.asarray(values)
        for name, values in data.items()
    }


class Request(NamedTuple):
    """How a user wants a model to be read: arguments of `from_pymc`.

    `counts_compilation`: whether the seconds of a plan include the compilation of code for a new model, as for a single
    run. A target that serves many runs compiles its code once.
    """

    row_dim: str | None = None
    structure: bool = True
    scale_effects: bool = True
    integrate: bool | str = "auto"
    latents: Any = "auto"
    data: Mapping[str, Any] | None = None
    counts_compilation: bool = False


class ModelDescription(ReadModel):
    """A model, how it should be read, and the outcomes of all attempts, each of which is made once."""

    def __init__(self, model: Any, request: Request, faults: Sequence[str] = ()) -> None:
        super().__init__(model)
        self.request = request
        self.faults = list(faults)
        self._outcomes: dict[Any, Any] = {}

    def attempt[Result](self, key: Any, read: Callable[[], Result]) -> Result | Reason:
        """Return ``read()``, or the reason why that is impossible; the second call with a `key` does not read again."""
        if key not in self._outcomes:
            self._outcomes[key] = attempt(read, self.faults)
        return cast("Result | Reason", self._outcomes[key])

    def require[Result](self, key: Any, read: Callable[[], Result]) -> Result:
        """Return the result of an attempt; raise if it had none."""
        outcome = self.attempt(key, read)
        if isinstance(outcome, Reason):
            raise outcome.again()
        return outcome

    @property
    def discrete(self) -> list[Any]:
        """The free variables that are not continuous."""
        return [variable for variable in self.given.free_RVs if not str(variable.dtype).startswith("float")]


def work_as_written(model: Any, sizes: Sequence[int], dim: int) -> WrittenWork:
    """Return the counted work of an evaluation of the likelihood by NUTS, without its gradient.

    `model` is a ``pm.Model``, `sizes` are the numbers of rows of its observed variables, and `dim` is the number of
    parameters.
    """
    observed = [(variable, n) for variable, n in zip(model.observed_RVs, sizes, strict=True) if n]
    densities = simplified_densities(model, [variable for variable, _ in observed])
    operations = sum(
        n * operations_of_a_row(density, n, OPERATIONS_OF_A_BRANCH)
        for density, (_, n) in zip(densities, observed, strict=True)
    )
    return WrittenWork(operations, dim, multiplies=_has_matrix_product(log_densities(model, model.observed_RVs)))


def _has_matrix_product(graphs: Sequence[Any]) -> bool:
    """Return whether a graph multiplies by a matrix."""
    products = (node for node in toposort(graphs) if name_of(node) in MULTIPLYING)
    inputs: Iterator[Any] = (operand for node in products for operand in node.inputs)
    return any(operand.ndim > 1 for operand in inputs)


def checked_latents(latents: Any) -> Any:
    """Return `latents`; raise if it is the path of a folder that no run can fill. `sample` checks an existing folder.

    Raises
    ------
    InvalidInputError
        When the name does not end with ``.zarr``.
    MissingExtraError
        When zarr is not installed.
    """
    if not isinstance(latents, str) or latents == "auto":
        return latents
    with extra("sources", f"latents={latents!r}"):
        import zarr  # noqa: F401
    if not latents.endswith(".zarr"):
        raise InvalidInputError(
            f"from_pymc: latents must be 'auto', labels of groups or a .zarr path, found {latents!r}"
        )
    return latents
