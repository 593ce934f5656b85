"""What users give a target: arrays or sources in tuples and mappings, names of coordinates, predictors, responses."""

from collections.abc import Iterator, KeysView, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import DataSource, as_source
from approxmcmc.sources.parts import each, leaves
from approxmcmc.targets.checks import checked_array


def with_sources(rows: Any) -> Any:
    """Return nested arguments with a source in the place of each Dask collection and Zarr array; others unchanged."""

    def known(leaf: Any) -> Any:
        source = as_source(leaf)
        return leaf if source is None else source

    return each(known, rows)


def kept(rows: Any) -> Any:
    """Return `rows` if a leaf of it is a source, from which workers can read the rows again; else None."""
    return rows if any(isinstance(leaf, DataSource) for leaf in leaves(rows)) else None


def checked_weights(values: Any, n: int) -> np.ndarray:
    """Return a user's known weights of n rows as floats; raise unless all are positive."""
    weights = checked_array(values, "weights").astype(np.float64, copy=False)
    if weights.shape != (n,):
        raise InvalidInputError(f"{speaker()}: weights must hold {n} numbers, as y does, found shape {weights.shape}")
    if not (weights > 0.0).all():
        row = int(np.argmin(weights > 0.0))
        raise InvalidInputError(
            f"{speaker()}: weights must be positive, found {weights[row]:g} in row {row}; leave out rows of weight 0"
        )
    return weights


def named_variables(
    dim: int,
    names: Sequence[str] | None,
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
) -> Variables:
    """Return the variables in a theta of length `dim`, from a user's `names`, `dims` and `coords`.

    There may be one name for all of theta, a name per scalar, or names of variables with `dims` and `coords`.

    Raises
    ------
    InvalidInputError
        If a name occurs twice or is reserved, `dims` has a key that is not a variable, an axis has no labels (one name
        for all of theta needs none), or the sizes do not add up to `dim`.
    """
    is_one_name = names is None or isinstance(names, str)
    names = ("theta",) if names is None else _as_names(names)
    vector = is_one_name or len(names) == 1 < dim
    labelled = {name: tuple([axes] if isinstance(axes, str) else axes) for name, axes in dims.items()}
    _check_names(names, labelled, coords)
    unknown = [axis for axes in labelled.values() for axis in axes if axis not in coords]
    if unknown and not vector:
        raise InvalidInputError(f"{speaker()}: dims name the axes {unknown}, which have no entry in coords")
    if vector:
        shapes = {names[0]: tuple(len(coords[axis]) for axis in labelled.get(names[0], ()) if axis in coords) or (dim,)}
    else:
        shapes = {name: tuple(len(coords[axis]) for axis in labelled.get(name, ())) for name in names}
    variables = Variables(shapes, labelled, {axis: list(labels) for axis, labels in coords.items()})
    check_names(variables)
    if variables.size != dim:
        raise InvalidInputError(
            f"{speaker()}: the variables {dict(shapes)} hold {variables.size} numbers, dim is {dim}; "
            "give one name, a name per scalar, or dims and coords that add up"
        )
    return variables


def _as_names(names: Any) -> tuple[Any, ...]:
    """Return a user's `names` as a tuple: one text, or a sequence or array of one axis, which holds texts."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence | KeysView) and getattr(names, "ndim", 0) != 1:
        raise InvalidInputError(f"{speaker()}: var_names must be a text, or a sequence of texts, found {names!r}")
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise InvalidInputError(f"{speaker()}: var_names must be strings other than 'chain' and 'draw'; rename {wrong}")
    return tuple(names)


def check_names(variables: Variables) -> None:
    """Raise on names that a trace or its file cannot hold: xarray would drop some silently, others end the writing.

    Raises
    ------
    InvalidInputError
        If a variable's name is not a string, or is "chain", "draw" or the name of an axis; if an axis has a name that
        is not a string, or is "chain" or "draw"; if a name contains "/", which separates the groups of a trace; or if a
        name or a label cannot be encoded.
    """
    axes = {axis for name in variables.shapes for axis in variables.dims.get(name, ())}
    taken = {"chain", "draw"}
    wrong = [name for name in variables.shapes if not isinstance(name, str) or name in taken | axes]
    wrong += [axis for dims in variables.dims.values() for axis in dims if not isinstance(axis, str)]
    if wrong := [*wrong, *sorted(axes & taken)]:
        raise InvalidInputError(
            f"{speaker()}: variables and their axes need different names, strings other than 'chain' and 'draw', which "
            f"are axes of every trace; rename {wrong}"
        )
    every_axis = {axis for dims in variables.dims.values() for axis in dims}  # also of data and deterministics
    if paths := sorted(name for name in {*variables.shapes, *every_axis} if "/" in name):
        raise InvalidInputError(
            f"{speaker()}: a name with '/' is a path in a trace, which cannot hold it; rename the variables or axes "
            f"{paths}"
        )
    labels = {label for ticks in variables.coords.values() for label in ticks if isinstance(label, str)}
    if wrong := sorted(text for text in {*variables.shapes, *every_axis, *labels} if not _is_encodable(text)):
        raise InvalidInputError(
            f"{speaker()}: a name or label with half of a surrogate pair, which is not a character, cannot be saved; "
            f"rename {wrong}"
        )


def _is_encodable(text: str) -> bool:
    """Return whether a text has an encoding: a damaged decoding may leave halves of surrogate pairs in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_names(
    names: Sequence[Any],
    dims: Mapping[str, Sequence[Any]],
    coords: Mapping[str, Sequence[Any]],
) -> None:
    """Raise on names that would be silently dropped or mixed up."""
    if wrong := [name for name in names if names.count(name) > 1]:
        raise InvalidInputError(f"{speaker()}: var_names must be different, found {wrong}")
    if wrong := [name for name in dims if name not in names]:
        raise InvalidInputError(f"{speaker()}: dims name {wrong}, the variables are {list(names)}")
    if wrong := [axis for axis, labels in coords.items() if isinstance(labels, str) or not hasattr(labels, "__len__")]:
        raise InvalidInputError(f"{speaker()}: coords must hold a sequence of labels for each axis, see {wrong}")


def check_same_index(**values: Any) -> None:
    """Raise unless all pandas objects among the values, also inside tuples and mappings, have the same row labels.

    Rows are joined by position, as statsmodels does; labels in another order would silently join the wrong rows.
    Arrays have no labels and fit everything.

    Raises
    ------
    InvalidInputError
        When two have different labels, or the same in another order.
    """
    labelled = [(name, index) for name, value in values.items() for name, index in _indexes(name, value)]
    for name, index in labelled[1:]:
        first_name, first = labelled[0]
        if len(index) != len(first) or index.equals(first):  # other checks speak about lengths
            continue
        if index.is_unique and first.is_unique and index.isin(first).all():
            raise InvalidInputError(
                f"{speaker()}: {first_name} and {name} have the same row labels in another order, and rows are joined "
                f"by position; write {name}.loc[{first_name}.index] for {name}"
            )
        raise InvalidInputError(
            f"{speaker()}: {first_name} and {name} have different row labels, {list(first[:3])} ... and "
            f"{list(index[:3])} ...; align them first, or join them by position with {name}.to_numpy()"
        )


def _indexes(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and row labels of each DataFrame and Series of pandas inside a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _indexes(str(key), inner)
    elif isinstance(value, (tuple, list)):
        for k, inner in enumerate(value):
            yield from _indexes(f"{name}[{k}]", inner)
    elif type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "index"):
        yield name, value.index


def design_matrix(
    X: Any, y: Any, *, intercept: bool, coef_names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return X as contiguous floats, with a first column of ones if asked for, y as numbers, and a name per column.

    Both may be sources, as `design_source` and `response_source` return them. X is float32 if it was given so, else
    float64. Names are the given ones, else the column names of a DataFrame or a source, else x0, x1, ...

    Raises
    ------
    InvalidInputError
        When X and y do not have the same number of rows, or the names do not fit the columns.
    """
    names = coef_names if coef_names is not None else getattr(X, "columns", None)
    has_ones = intercept and getattr(X, "ones", None) is not None
    X = checked_array(X, "X", keep_float32=True)
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    y = checked_array(y, "y")
    if X.ndim != 2 or y.ndim != 1 or X.shape[0] != y.shape[0] or X.shape[0] < 1:
        raise InvalidInputError(
            f"{speaker()}: X must have shape (n, p) and y shape (n,) with the same n >= 1, found X {X.shape} and y "
            f"{y.shape}"
        )
    width = X.shape[1] - has_ones
    if isinstance(names, str) or (names is not None and not hasattr(names, "__len__")):
        raise InvalidInputError(f"{speaker()}: coef_names must be a sequence of {width} names, found {names!r}")
    labels = [f"x{j}" for j in range(width)] if names is None else [str(name) for name in names]
    if has_ones and coef_names is None:
        labels = labels[1:]
    if repeated := sorted({label for label in labels if labels.count(label) > 1}):
        raise InvalidInputError(f"{speaker()}: names of columns must differ, found {repeated} twice; give coef_names=")
    if len(labels) != width:
        raise InvalidInputError(f"{speaker()}: X has {width} columns, {len(labels)} names were given")
    if intercept:
        X = X if has_ones else np.column_stack([np.ones(X.shape[0], X.dtype), X])
        labels = ["intercept", *labels]
    if not labels:
        raise InvalidInputError(
            f"{speaker()}: X must have shape (n, p) with p >= 1, found {X.shape}; or take intercept=True"
        )
    return np.ascontiguousarray(X), y, labels


def design_source(X: Any, *, intercept: bool) -> Any:
    """Return X as a source of floats, with a first column of ones if asked for; X itself if `as_source` finds none."""
    source = as_source(X)
    if source is None:
        return X
    source = source if source.dtype.kind == "f" else source.astype(np.float64)
    takes_ones = intercept and source.ndim == 2 and source.ones is None
    return source.with_ones("intercept") if takes_ones else source


def response_source(y: Any) -> Any:
    """Return y as a source of float64, or y itself if `as_source` finds none."""
    source = as_source(y)
    return y if source is None else source.astype(np.float64)
