"""A data set for binary classification, with its provenance."""

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
        Whether the values were generated in place of real ones.
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


class Columns(NamedTuple):
    """Predictors with their names: `values` has shape (n, len(names))."""

    values: np.ndarray
    names: tuple[str, ...]


def one_hot(codes: np.ndarray, title: str, labels: Sequence[Any] | None = None) -> Columns:
    """Return a 0/1 column for each level that occurs, in ascending order; no level is left out as the reference.

    Parameters
    ----------
    codes
        Level of each row; integers, shape (n,).
    title
        Name of the variable; a column is called ``title[label]``.
    labels
        Label of the levels 0, 1, ...; None = the codes themselves.

    Examples
    --------
    >>> one_hot(np.array([4, 2, 4]), "soil").names
    ('soil[2]', 'soil[4]')
    """
    levels = np.unique(codes)
    names = tuple(f"{title}[{level if labels is None else labels[level]}]" for level in levels)
    return Columns((codes[:, None] == levels).astype(np.float64), names)


def side_by_side(blocks: Iterable[Columns]) -> Columns:
    """Return the columns of all blocks, in their order."""
    values, names = zip(*blocks, strict=True)
    return Columns(np.column_stack(values), sum(names, ()))


def standardise(columns: np.ndarray) -> np.ndarray:
    """Return the columns shifted and scaled to mean 0 and standard deviation 1; a constant column becomes 0."""
    spread = columns.std(axis=0)
    return np.ascontiguousarray((columns - columns.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def standardised_dataset(
    name: str,
    train: Columns,
    y_train: np.ndarray,
    *,
    provenance: str,
    sha256: str,
    test: np.ndarray | None = None,
    y_test: np.ndarray | None = None,
    is_synthetic: bool = False,
) -> Dataset:
    """Return a data set with predictors of mean 0 and standard deviation 1 on the training rows.

    Columns that are constant on the training rows are dropped. Test rows are shifted and scaled by the means and
    standard deviations of the training rows.
    """
    varies = np.ptp(train.values, axis=0) > 0.0
    X_train = np.ascontiguousarray(train.values[:, varies])
    X_test = np.empty((0, X_train.shape[1])) if test is None else np.ascontiguousarray(test[:, varies], np.float64)
    centre = X_train.mean(axis=0)
    spread = X_train.std(axis=0)
    for rows in (X_train, X_test):  # in place: one-hot columns of half a million rows are half a gigabyte
        np.subtract(rows, centre, out=rows)
        np.divide(rows, spread, out=rows)
    return Dataset(
        name=name,
        X_train=X_train,
        y_train=y_train.astype(np.float64),
        X_test=X_test,
        y_test=np.empty(0) if y_test is None else y_test.astype(np.float64),
        provenance=f"{provenance}; constant columns dropped, standardised",
        sha256=sha256,
        is_synthetic=is_synthetic,
        columns=tuple(label for label, kept in zip(train.names, varies, strict=True) if kept),
    )


def without_constants(data: Dataset) -> Dataset:
    """Return the data without the predictors that are the same in all training rows."""
    varies = np.ptp(data.X_train, axis=0) > 0.0
    if varies.all():
        return data
    return dataclasses.replace(
        data,
        X_train=np.ascontiguousarray(data.X_train[:, varies]),
        X_test=np.ascontiguousarray(data.X_test[:, varies]),
        columns=data.columns and tuple(label for label, varied in zip(data.columns, varies, strict=True) if varied),
        provenance=f"{data.provenance}; constant columns dropped",
    )
