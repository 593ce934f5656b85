"""Messages go to the logger of the package; without a handler, to standard error, from INFO on."""

import logging
import subprocess
import sys

import pytest

import approxmcmc as amc
from approxmcmc.engine.messages import LOGGER, detail
from tests.models import logistic


def standard_error_of(*lines):
    """Run lines in a new process without a handler: pytest installs one for all loggers."""
    code = "\n".join(["import logging", "from approxmcmc.engine.messages import LOGGER, detail, tell", *lines])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout
    return done.stderr


def test_where_nobody_listens_messages_from_info_on_are_read():
    lines = 'tell("%s rows", 3)', 'detail("and so on")', 'tell("again")', "assert len(LOGGER.handlers) == 1"
    assert standard_error_of(*lines) == "approxmcmc: 3 rows\napproxmcmc: again\n"


def test_a_level_that_was_set_is_kept():
    quiet, loud = ("LOGGER.setLevel(logging.WARNING)", 'tell("x")'), ("LOGGER.setLevel(logging.DEBUG)", 'detail("y")')
    assert standard_error_of(*quiet, *loud) == "approxmcmc: y\n"


def test_a_set_up_of_logging_decides_alone():
    set_up = "import sys", "logging.basicConfig(level=logging.WARNING)", 'tell("x")', 'logging.warning("y")'
    assert standard_error_of(*set_up) == "WARNING:root:y\n"


def test_whoever_set_up_logging_gets_the_records_alone(caplog, capsys):
    """No second handler, and the level is that of the user's own set-up."""
    before = list(LOGGER.handlers)
    with caplog.at_level(logging.DEBUG, logger="approxmcmc"):
        detail("trying %s", "this")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("DEBUG", "trying this")]
    assert LOGGER.handlers == before and capsys.readouterr().err == ""


@pytest.mark.thorough
@pytest.mark.recompiles
def test_a_chosen_sampler_is_told_and_tries_are_details(caplog):
    with caplog.at_level(logging.DEBUG, logger="approxmcmc"):
        trace = amc.sample(logistic(120, 2), draws=20, tune=10, chains=2, random_seed=1, progressbar=True)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert told == [trace.posterior.attrs["chosen"]]
    assert any(record.getMessage().startswith("trying ") for record in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="approxmcmc"):
        amc.sample(logistic(120, 2), draws=20, tune=10, chains=2, random_seed=1, progressbar=False)
    assert not caplog.records
