"""Tools for tests of the data order: decisions on a given order, and bugs planted in compiled helpers."""

import inspect
import textwrap

from approxmcmc.acceptance import barker, sequential_t
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine import order as order_module
from approxmcmc.engine.batches import merge_differences
from approxmcmc.engine.compile import compiled
from approxmcmc.engine.order import rows_order
from approxmcmc.samplers import metropolis_hastings_step

TOUCHED, EVALUATIONS = COUNT_NAMES.index("datapoints_touched"), COUNT_NAMES.index("likelihood_evaluations")
# Callees before callers: a compiled function keeps the callees that it was made with.
HELPERS = ("draw_next", "shuffle_rows", "begin", "settle", "read_blocks", "read_differences")


def given_order(places):
    """Return an order of rows whose permutation is given."""
    return (places, *rows_order(0)[1:])


def read_in_given_order(rng, log_terms, data, theta, proposed, start, stop, order, work, count):
    """Do what `read_differences` does, without drawing."""
    count[TOUCHED] += stop - start
    count[EVALUATIONS] += 2 * (stop - start)
    return merge_differences(log_terms, theta, proposed, data, order[0], start, stop, work)


def rebuilt(name: str = "", right: str = "", wrong: str = "", wrap=lambda function: function) -> dict:
    """Return the module's helpers made anew, plain or compiled, with a piece of one replaced."""
    scope = order_module.__dict__.copy()
    for helper in HELPERS:
        source = textwrap.dedent(inspect.getsource(getattr(order_module, helper)))
        source = source[source.index("def ") :]
        if helper == name:
            assert right in source, f"{name} no longer holds {right!r}: mend the planted bug"
            source = source.replace(right, wrong)
        exec(source, scope)
        scope[helper] = wrap(scope[helper])
    return scope


def plant_in_order(monkeypatch, name: str, right: str, wrong: str) -> None:
    """Replace a piece of a helper's source, and compile all that is made of it anew."""
    scope = rebuilt(name, right, wrong, compiled)
    for user in (sequential_t, barker):
        monkeypatch.setattr(user, "read_differences", scope["read_differences"])
    monkeypatch.setattr(metropolis_hastings_step, "settle", scope["settle"])
