"""A folder of Parquet files, read by pyarrow."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import content_hash
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.extras import extra
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources.base import DataSource, as_labels, check_alone, check_numbers, column_names


class ParquetFolder(DataSource):
    """The rows of a folder of Parquet files, read in the order of the file names; a block is a row group.

    Parameters
    ----------
    path
        A folder, a file, or an address that pyarrow supports, such as ``"s3://bucket/folder"``. Folders ``name=value``
        become a column `name`.

    Raises
    ------
    InvalidInputError
        When there are no Parquet files, or no rows.
    MissingExtraError
        When pyarrow is not installed; it comes with ``approxmcmc[sources]``.

    Notes
    -----
    Data count as unchanged while names, sizes and modification times of the Parquet files are unchanged: then a local
    file written earlier is used instead of them. A column of categories is stored as a dictionary, as pandas writes it,
    or as text. Labels keep the order of their dictionary if all row groups have the same one, and are sorted otherwise.

    Examples
    --------
    >>> rows = ParquetFolder("flights")  # doctest: +SKIP
    >>> target = amc.LogisticRegression(rows[["distance", "hour"]], rows["late"])  # doctest: +SKIP
    """

    @names_itself()
    def __init__(self, path: str | Path) -> None:
        with extra("sources", "ParquetFolder"):
            import pyarrow.dataset as ds
        try:
            data = ds.dataset(str(path), format="parquet", partitioning="hive")
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"ParquetFolder: {path} cannot be read as Parquet files ({error})") from error
        files = sorted(data.get_fragments(), key=lambda file: file.path)
        groups_of_files = [file.split_by_row_group() for file in files]
        self._groups = [group for groups in groups_of_files for group in groups]
        self._file_of_group = [k for k, groups in enumerate(groups_of_files) for _ in groups]
        counts = [sum(part.num_rows for part in group.row_groups) for group in self._groups]
        if not sum(counts):
            raise InvalidInputError(f"ParquetFolder: {path} holds no rows in Parquet files")
        self.schema = data.schema
        self.columns = column_names(data.schema.names, len(data.schema))
        self.offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        infos = data.filesystem.get_file_info([file.path for file in files])
        self._state = content_hash([(file.path, file.size, str(file.mtime_ns)) for file in infos])
        start = str(path).rstrip("/") + "/"
        self.files = tuple((file.path.removeprefix(start), file.size, str(file.mtime_ns)) for file in infos)
        self._labels: dict[str, tuple[Any, ...]] = {}

    def new_rows(self, known: Any) -> Self:
        """Return the rows of the files that a target does not have yet, to append them to it.

        Parameters
        ----------
        known
            The target, which was made of files of this folder, or of files and rows that were appended; or its
            `blocks`. No file that it has is read.

        Raises
        ------
        InvalidInputError
            If a file that the target has was changed, or is gone, judged by its size and its modification time; or if
            there is no new file.

        Examples
        --------
        >>> new = ParquetFolder("flights").new_rows(target)  # doctest: +SKIP
        >>> target = target.append(new[["distance", "hour"]], new["late"], block="Tuesday")  # doctest: +SKIP
        """
        blocks = getattr(known, "blocks", known)
        old = {name: (size, time) for block in blocks for name, size, time in block.files}
        if not old:
            raise InvalidInputError(
                "ParquetFolder.new_rows: the target does not know the files of its rows; make it from a ParquetFolder"
            )
        current_files = {name: (size, time) for name, size, time in self.files}
        for name, state in old.items():
            if current_files.get(name) != state:
                what = "is gone" if name not in current_files else "was changed"
                raise InvalidInputError(
                    f"ParquetFolder.new_rows: {name}, whose rows the target has, {what}; bring it back, or make the "
                    "target again from all files, or remove its block with target.remove(block)"
                )
        new_files = [k for k, (name, _, _) in enumerate(self.files) if name not in old]
        if not new_files:
            raise InvalidInputError("ParquetFolder.new_rows: there is no file that the target does not have")
        only_new = copy.copy(self)
        new_groups = [k for k, file in enumerate(self._file_of_group) if file in new_files]
        counts = np.diff(self.offsets)[new_groups]
        only_new._groups = [self._groups[k] for k in new_groups]
        only_new._file_of_group = [new_files.index(self._file_of_group[k]) for k in new_groups]
        only_new.offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        only_new.files = tuple(self.files[k] for k in new_files)
        only_new._state = content_hash(only_new.files)
        only_new._labels = {}
        return only_new

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes and modification times."""
        return self._state

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]:
        """Labels of the selected columns with categories; needs one pass over each such column."""
        coded = [name for name in self.columns if name != self.ones and _is_coded(self.schema.field(name).type)]
        for name in coded:
            if name not in self._labels:
                self._labels[name] = as_labels([_labels(self._column(group, name)) for group in self._groups])
        return {name: self._labels[name] for name in coded}

    @names_itself()
    def _types(self) -> Sequence[np.dtype]:
        import pyarrow as pa

        types = {}
        for name in self.columns:
            arrow_type = self.schema.field(name).type if name != self.ones else pa.int8()
            is_number = (
                pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
            )
            types[name] = np.dtype(arrow_type.to_pandas_dtype() if is_number else object)
            if _is_coded(arrow_type):
                types[name] = np.dtype(np.int64)
        check_numbers(types)
        return list(types.values())

    @names_itself()
    def _read(self, block: int) -> np.ndarray:
        import pyarrow as pa
        import pyarrow.compute as pc

        common = np.result_type(*self._types())
        coded = [name for name in self.columns if _is_coded(self.schema.field(name).type)]
        check_alone(dict.fromkeys(coded), self.columns)
        table = self._groups[block].to_table(columns=list(self.columns), schema=self.schema)
        rows = np.empty((table.num_rows, len(self.columns)), dtype=common)
        for j, name in enumerate(self.columns):
            column = table.column(name)
            if coded:
                column = pc.index_in(column.cast(_value_type(column.type)), value_set=pa.array(self.categories[name]))
            if column.null_count and common.kind in "iub":
                raise InvalidInputError(
                    f"ParquetFolder: column {name!r} has {column.null_count} missing value(s) in row group {block}; "
                    "drop or impute these rows"
                )
            rows[:, j] = column.to_numpy()
        return rows

    @staticmethod
    def _column(group: Any, name: str) -> Any:
        return group.to_table(columns=[name]).column(name)


def _is_coded(arrow_type: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_dictionary(arrow_type) or pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)
    )


def _value_type(arrow_type: Any) -> Any:
    import pyarrow as pa

    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def _labels(column: Any) -> Sequence[Any]:
    """Return the labels of a column of one row group: its dictionary, or its sorted texts."""
    if hasattr(column.type, "value_type"):
        return as_labels([chunk.dictionary.to_pylist() for chunk in column.chunks])
    return sorted(value for value in column.unique().to_pylist() if value is not None)
