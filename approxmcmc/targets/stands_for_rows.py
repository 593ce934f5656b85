"""Base class of targets with the same posterior as a target of single rows, but fewer terms."""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Target, content_hash
from approxmcmc.targets.tall_data import TallDataTarget


class StandsForRows(TallDataTarget):
    """The posterior of `rows`, the target of single rows; subclasses set `data` and `n_obs`, and compile the terms."""

    seconds: float
    """Seconds that it took to compute `data` from the rows."""

    def __init__(self, rows: TallDataTarget) -> None:
        self._rows = rows
        self.n_rows = rows.n_obs
        self.variables = rows.variables
        self.prior = rows.prior

    @property
    def terms_are_concave(self) -> bool:  # type: ignore[override]  # a constant of other targets
        """Whether the terms of single rows are concave; sums of them then are, too."""
        return self._rows.terms_are_concave

    @property
    def plain(self) -> Target:
        """The target of single rows."""
        return self._rows

    @property
    @abc.abstractmethod
    def found(self) -> str:
        """Return a sentence that says what was found to replace the rows, and what a step reads."""

    @property
    def terms_are_rows(self) -> bool:
        """False: a term stands for many rows."""
        return False

    def refuse_changed_data(self, name: str = "") -> None:
        """Raise `InvalidInputError` if the rows were changed in place: `data` would still be those of the old rows."""
        name = name or type(self).__name__
        super().refuse_changed_data(name)
        self._rows.refuse_changed_data(name)

    def initial_point(self) -> np.ndarray:
        """Return the initial point of the target of single rows."""
        return self._rows.initial_point()

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, row by row."""
        return self._rows.observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The predictors, row by row."""
        return self._rows.constant_data

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: how many terms represent the rows, and the seconds to compute them."""
        return {**self._rows.setup_attrs, "compression": self.found, "setup_compression_seconds": self.seconds}

    def to_pymc(self) -> Any:
        """Return the PyMC model of the target of single rows."""
        return self._rows.to_pymc()

    def content_hash(self) -> str:
        """Return a hash of model and data."""
        return content_hash(type(self).__name__, self._rows.content_hash())

    def _identity(self) -> str:
        return self._rows._identity()

    def __repr__(self) -> str:
        """Show the sizes."""
        return f"{type(self).__name__}({self.n_rows} rows, n_obs={self.n_obs}, dim={self.variables.size})"
