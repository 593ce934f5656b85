"""A model made of parts: its script, the PyMC model that the script makes, and its densities in NumPy."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from tests.random_models import containers
from tests.random_models.laws import Law
from tests.random_models.terms import Term, Values, constant

HEAD = "import numpy as np, pandas as pd, pymc as pm, pytensor.tensor as pt\n"


class Variable(NamedTuple):
    """A free or observed variable: its law, the arguments, shape, dims, and the observed values."""

    law: Law
    arguments: Sequence[Term]
    shape: tuple[int, ...]
    dims: tuple[str, ...] | None
    observed: np.ndarray | None = None

    def log_densities(self, x: Any, values: Values) -> np.ndarray:
        """Return the log density of each event of `x`."""
        found = self.law.log_density(x, *(one.value(values) for one in self.arguments))
        return np.broadcast_to(found, np.shape(x)[: np.ndim(x) - self.law.event_axes])


class RandomModel:
    """Parts of a model, in the order of its script. `rng` makes the data, which are rounded to two digits."""

    def __init__(self, draw: Any) -> None:
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.draw = draw
        self.data_lines: list[str] = []
        self.lines: list[str] = []
        self.coords: dict[str, Any] = {}
        self._coords_code: dict[str, str] = {}
        self.free: dict[str, Variable] = {}
        self.observed: dict[str, Variable] = {}
        self.deterministics: dict[str, tuple[Term, tuple[str, ...] | None]] = {}
        self.potentials: dict[str, Term] = {}
        self.data_names: list[str] = []
        self.features: set[str] = set()

    def pick(self, options: Sequence[Any]) -> Any:
        """Draw one of the options; the first is the simplest."""
        return self.draw(st.sampled_from(list(options)))

    def count(self, lowest: int, highest: int) -> int:
        """Draw a whole number."""
        return self.draw(st.integers(lowest, highest))

    def rarely(self, one_in: int) -> bool:
        """Draw whether something happens, once in so many times; shrinks to False."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def name(self, stem: str) -> str:
        """Return a name that no variable or array has yet."""
        taken = {*self.free, *self.observed, *self.deterministics, *self.potentials, *self.data_names}
        return next(name for name in (stem, *(f"{stem}{k}" for k in range(2, 99))) if name not in taken)

    def array(self, stem: str, value: np.ndarray) -> Term:
        """Add data in a random container, in PyMC's `Data` or not, and return the term."""
        name = self.name(stem)
        self.data_names.append(name)
        code = containers.written(self.draw, value)
        self.data_lines.append(f"{name}_values = {code}")
        if self.rarely(4):
            self.lines.append(f'{name} = pm.Data("{name}", {name}_values)')
            return constant(name, value)
        return constant(f"{name}_values", value)

    def dim(self, stem: str, n: int) -> str | None:
        """Add a dim with labels, or return None for an axis without a name."""
        if self.rarely(2):
            return None
        name = f"{stem}_dim" if f"{stem}_dim" not in self.coords else f"{stem}_dim{len(self.coords)}"
        code, made = containers.labels(self.draw, n)
        self.coords[name], self._coords_code[name] = made, code
        return name

    def variable(
        self,
        stem: str,
        law: Law,
        *arguments: Term,
        shape: tuple[int, ...] = (),
        dims: Sequence[str | None] | None = None,
    ) -> Term:
        """Add a free variable and return it."""
        name = self.name(stem)
        known = tuple(dims) if dims is not None and None not in dims else None
        self.free[name] = Variable(law, arguments, shape, known)  # type: ignore[arg-type]  # without None
        size = f", dims={known!r}" if known else f", shape={shape!r}" if shape else ""
        given = ", ".join(f"{key}={one.code}" for key, one in zip(law.keywords, arguments, strict=True))
        self.lines.append(f'{name} = pm.{law.name}("{name}", {given}{law.more}{size})')
        return Term(name, lambda values: values[name])

    def observe(self, stem: str, law: Law, arguments: Sequence[Term], y: np.ndarray) -> str:
        """Add an observed variable and return its name."""
        name = self.name(stem)
        self.observed[name] = Variable(law, arguments, y.shape, None, y)
        given = ", ".join(f"{key}={one.code}" for key, one in zip(law.keywords, arguments, strict=True))
        data = self.array(f"{name}_data", y)
        self.lines.append(f'pm.{law.name}("{name}", {given}, observed={data.code})')
        return name

    def deterministic(self, stem: str, term: Term, dims: Sequence[str | None] | None = None) -> Term:
        """Add a deterministic and return it."""
        name = self.name(stem)
        known = tuple(dims) if dims is not None and None not in dims else None
        self.deterministics[name] = term, known  # type: ignore[assignment]  # without None
        size = f", dims={known!r}" if known else ""
        self.lines.append(f'{name} = pm.Deterministic("{name}", {term.code}{size})')
        return Term(name, term.value)

    def potential(self, stem: str, term: Term) -> None:
        """Add a potential."""
        name = self.name(stem)
        self.potentials[name] = term
        self.lines.append(f'pm.Potential("{name}", {term.code})')

    @property
    def source(self) -> str:
        """The script that makes the model."""
        coords = ", ".join(f"{name!r}: {code}" for name, code in self._coords_code.items())
        given = f"coords={{{coords}}}" if coords else ""
        lines = "".join(f"    {line}\n" for line in self.lines)
        return f"{HEAD}{''.join(line + chr(10) for line in self.data_lines)}with pm.Model({given}) as model:\n{lines}"

    def build(self) -> Any:
        """Return the PyMC model that the script makes."""
        scope: dict[str, Any] = {}
        exec(self.source, scope)
        return scope["model"]

    @property
    def discrete(self) -> list[str]:
        """Names of the discrete free variables."""
        return [name for name, one in self.free.items() if one.law.name in ("Bernoulli", "Categorical")]

    def log_prior(self, values: Values, without: Sequence[str] = ()) -> float:
        """Return the log prior of the free variables but those named, with all potentials."""
        free = sum(float(self.log_prior_of(name, values).sum()) for name in self.free if name not in without)
        return free + sum(float(np.sum(one.value(values))) for one in self.potentials.values())

    def log_prior_of(self, name: str, values: Values) -> np.ndarray:
        """Return the log density of each event of a free variable."""
        return self.free[name].log_densities(values[name], values)

    def rows(self, values: Values) -> dict[str, np.ndarray]:
        """Return the log density of each observation, by observed variable."""
        return {name: one.log_densities(one.observed, values) for name, one in self.observed.items()}

    def flat_rows(self, values: Values) -> np.ndarray:
        """Return the log densities of all observations, one variable after the other."""
        return np.concatenate([one.ravel() for one in self.rows(values).values()])

    def expected(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the deterministics."""
        return {name: np.asarray(term.value(values)) for name, (term, _) in self.deterministics.items()}

    def __repr__(self) -> str:
        """Return the script, so that a failure shows it."""
        return f"\n{self.source}"
