"""A data set for binary classification, with its provenance."""

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Dataset:
    """Predictors and 0/1 responses, split into training and test rows.

    Attributes
    ----------
    name
        Name of the data in a table or figure; says so if they are synthetic.
    X_train, X_test
        Predictors; shapes (n_train, d) and (n_test, d).
    y_train, y_test
        Responses, 0 or 1; shapes (n_train,) and (n_test,).
    provenance
        Origin of the values, and the processing steps.
    sha256
        Checksum of the arrays that were loaded or generated; see `checksum`.
    is_synthetic
        Whether the values were generated because the real ones were not available.
    component_variances
        Variances of the columns of `X_train` if these are principal components, else None.
    columns
        Names of the predictors, one for each column of `X_train`; None if they have no names.
    """

    name: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    provenance: str
    sha256: str
    is_synthetic: bool = False
    component_variances: np.ndarray | None = None
    columns: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        """Return name, shapes and origin, without the numbers."""
        return f"<Dataset {self.name!r}: train {self.X_train.shape}, test {self.X_test.shape}; {self.provenance}>"


def checksum(*arrays: np.ndarray) -> str:
    """Return the SHA-256 of types, shapes and values: equal arrays have equal checksums, in any file.

    Examples
    --------
    >>> checksum(np.zeros(3)) == checksum(np.zeros(3)), checksum(np.zeros(3)) == checksum(np.zeros((3, 1)))
    (True, False)
    """
    digest = hashlib.sha256()
    for array in arrays:
        little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{little_endian.dtype.str}{array.shape}".encode())
        digest.update(little_endian.data)
    return digest.hexdigest()
