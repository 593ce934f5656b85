"""The message about a lost Dask scheduler; `tests/faults/test_hosts.py` tests the loss itself."""

from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest

from approxmcmc.engine.terms.dask_client import result_of
from approxmcmc.errors import StudyError
from approxmcmc.study import engines


class Task:
    """A future that raises."""

    def __init__(self, status, error):
        self.status, self.error = status, error

    def result(self):
        raise self.error


LOST = ConnectionError("lost")


@pytest.mark.parametrize(("status", "error"), [("cancelled", CancelledError()), ("finished", OSError("timed out"))])
def test_a_result_that_cannot_be_fetched_is_lost(status, error):
    with pytest.raises(ConnectionError, match=r"^lost$"):
        result_of(Task(status, error), LOST)


def test_an_error_of_the_task_is_its_own():
    with pytest.raises(OSError, match="no room"):
        result_of(Task("error", OSError("no room")), LOST)


def test_a_cell_in_flight_is_not_blamed_for_its_scheduler():
    """Else it would be recorded as failed, and a run would not make it again."""
    pytest.importorskip("distributed")
    job = SimpleNamespace(lost=lambda plan, cell, status, error: status)
    told = pytest.raises(StudyError, match=r"tcp://there:1 cannot be reached .* same command again")
    with told, engines._reachable("tcp://there:1"):
        engines._result(Task("cancelled", CancelledError()), None, job, None)
    assert engines._result(Task("error", OSError("no room")), None, job, None) == "failed"
