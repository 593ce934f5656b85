"""The connection to a Dask scheduler: the active client, and detection of a lost connection.

A client that loses its scheduler cancels all futures, and tries for half a minute to connect again; a new scheduler
does not have these futures. So a cancelled future, and a result that cannot be fetched, both mean that the work is
lost.
"""

import sys
from concurrent.futures import CancelledError
from typing import Any

LOSSES = (CancelledError, OSError)
"""The errors that Dask raises if a scheduler is gone, or cannot be reached."""


def active_client() -> Any:
    """Return the active Dask client, ``with Client(...):``; None without one, or if it is asynchronous or closed.

    The check imports nothing.
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
    """Return the result of a future; raise `lost` if the scheduler is gone, and the task's own errors unchanged."""
    try:
        return task.result()
    except LOSSES as error:
        if task.status == "error":
            raise
        raise lost from error
