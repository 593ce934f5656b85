"""Passes over all data by the workers of a Dask cluster: parts of the rows, and a function mapped over them.

The parts are futures: a task on a worker reads the rows of a part from their source, and the part stays on that worker.
A pass is one task for each part, sent to the worker that holds it. If a worker dies, Dask makes its parts and tasks
again on the others; nothing else is repeated.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from approxmcmc.engine.terms.dask_client import result_of
from approxmcmc.errors import InvalidInputError

ROWS = 1 << 20  # least rows of a part: a Dask task costs about 1 ms, a pass over this many rows about 100 ms


def spans(offsets: np.ndarray, rows: int = ROWS) -> list[tuple[int, int]]:
    """Return the limits of the parts: whole blocks, and at least `rows` rows in each part but the last.

    Examples
    --------
    >>> spans(np.array([0, 3, 6, 9, 10]), rows=5)
    [(0, 6), (6, 10)]
    """
    ends = [0]
    for end in offsets[1:].tolist():
        if end - ends[-1] >= rows:
            ends.append(end)
    if ends[-1] < offsets[-1]:
        ends.append(int(offsets[-1]))
    return list(itertools.pairwise(ends))


class Partitions:
    """Parts of the rows of a data set, held by the workers of a cluster.

    Parameters
    ----------
    client
        A `distributed.Client`.
    make_part
        ``make_part(recipe, lo, hi)`` returns the worker's copy of the rows lo ... hi - 1; its length is hi - lo.
    recipe
        Everything needed to make a part; small, because it is sent to every worker.
    where
        The pairs (lo, hi), in the order of the rows.

    Raises
    ------
    InvalidInputError
        When the cluster has no worker.
    """

    def __init__(
        self, client: Any, make_part: Callable[[Any, int, int], Any], recipe: Any, where: list[tuple[int, int]]
    ) -> None:
        self.client = client
        self.where = where
        self.address = client.scheduler.address
        if not client.scheduler_info()["workers"]:
            raise InvalidInputError(
                f"passes on Dask: the scheduler at {self.address} has no worker; start some, or call outside of "
                "the client's `with` block, and this process makes the passes"
            )
        # The recipe is the result of a task, because scattered data are lost with their worker.
        shared_recipe = client.submit(_itself, recipe, pure=False)
        lows, highs = zip(*where, strict=True)
        self.parts = client.map(_made, lows, highs, make_part=make_part, recipe=shared_recipe, pure=False)

    def map(self, function: Callable[..., Any], *arguments: Any) -> Iterator[tuple[int, Any]]:
        """Yield (k, ``function(part k, *arguments)``) in the order in which parts finish; errors of tasks are raised.

        Raises
        ------
        ConnectionError
            When the scheduler dies.
        """
        from distributed import as_completed

        lost = ConnectionError(
            f"passes on Dask: the connection to the scheduler at {self.address} was lost, and with it the parts of the "
            "rows; connect to one that runs, and call again"
        )
        if self.client.status != "running":
            raise lost
        tasks = self.client.map(_applied, self.parts, function=function, arguments=arguments, pure=False)
        numbers = {task.key: k for k, task in enumerate(tasks)}
        for task in as_completed(tasks):
            yield numbers[task.key], result_of(task, lost)
            task.release()  # a result may be as large as a column

    def total(self, function: Callable[..., Any], *arguments: Any, **by_row: np.ndarray) -> Any:
        """Return the sum of ``function(part k, *arguments, **by_row)`` over all parts, in the order of the rows.

        `by_row` are arrays with an entry for each row of the data, or of length 0 if these numbers are not wanted. Each
        part fills arrays for its own rows, which are copied into place.
        """
        like = {name: (len(array) > 0, array.shape[1:], array.dtype) for name, array in by_row.items()}
        totals: dict[int, Any] = {}
        for k, (sums, numbers) in self.map(_filled, function, arguments, like):
            totals[k] = sums
            for name, rows in numbers.items():
                if len(rows):
                    by_row[name][slice(*self.where[k])] = rows
        return functools.reduce(operator.add, (totals[k] for k in range(len(totals))))


def _itself(recipe: Any) -> Any:
    return recipe


def _made(lo: int, hi: int, make_part: Callable[[Any, int, int], Any], recipe: Any) -> Any:
    return make_part(recipe, lo, hi)


def _filled(part: Any, function: Callable[..., Any], arguments: tuple[Any, ...], like: dict[str, Any]) -> Any:
    by_row = {name: np.empty((len(part) * per_row, *shape), dtype) for name, (per_row, shape, dtype) in like.items()}
    return function(part, *arguments, **by_row), by_row


def _applied(part: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(part, *arguments)
