"""The connection to a Dask scheduler: the client that is active, and results that do not come once it is lost.

A client that loses its scheduler cancels all futures, and tries for half a minute to connect again, to a scheduler that
knows nothing of them. So a cancelled future, and a result that cannot be fetched, both mean that the work is gone.
"""

import sys
from concurrent.futures import CancelledError
from typing import Any

LOSSES = (CancelledError, OSError)
"""What Dask raises when a scheduler is gone, or cannot be reached."""


def active_client() -> Any:
    """Return the Dask client that is active, ``with Client(...):``, or None.

    Nothing is imported to tell.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.Client.current()
    except ValueError:
        return None
    return None if client.asynchronous or client.status != "running" else client


def result_of(task: Any, lost: Exception) -> Any:
    """Return the result of a future; raise `lost` where the scheduler is gone, and an error of the task as it is."""
    try:
        return task.result()
    except LOSSES as error:
        if task.status == "error":
            raise
        raise lost from error
