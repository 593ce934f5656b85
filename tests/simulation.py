"""Run simulators of auxiliary data outside a chain."""

import numpy as np
from numba import types as nb

from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine.compiler.compile import bind, type_of


def make_repeat(simulate):
    def repeat(rng, theta, state, count, out):
        for draw in range(out.shape[0]):
            simulate(rng, theta, state, out[draw], count)

    return repeat


def draw_many(simulator, theta, n_draws, rng, *, state=None, plain=False):
    """Return statistics of `n_draws` draws, shape (n_draws, dim), and the record of counts."""
    theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
    state = simulator.make_state() if state is None else state
    count, out = np.zeros(len(COUNT_NAMES), np.int64), np.empty((n_draws, theta.size))
    arguments = (rng, theta, state, count, out)
    if plain:
        make_repeat(getattr(simulator.simulate, "py_func", simulator.simulate))(*arguments)
    else:
        signature = nb.void(*(type_of(argument) for argument in arguments))
        bind(make_repeat, simulator.simulate, signature=signature)(*arguments)
    return out, count


def counted(count, name):
    """Return one entry of a record of counts."""
    return int(count[COUNT_NAMES.index(name)])
