"""Compiled code as plain Python, and bugs in it: a wrong function, written out in a test, in the place of a right one.

    plant(monkeypatch, {order.draw_next: drawn_with_replacement})

Kernels keep the functions that they were compiled with, so that a bug is planted in plain Python: the code that chains
run, without the compiler.
"""

import sys
import time
import types

from numba import config

from approxmcmc.engine.compiler.clock import nanoseconds
from approxmcmc.sampling.chain import Loop, make_chain


def plain(function, wrong=None):
    """Return a compiled function, and all that it calls, as plain Python; `wrong` maps functions to their stand-ins."""
    if config.DISABLE_JIT and not wrong:
        return function
    stand_ins = {_code_of(right): stand_in for right, stand_in in (wrong or {}).items()}
    return _plain(function, {_code_of(nanoseconds): time.perf_counter_ns} | stand_ins)


def plant(monkeypatch, wrong):
    """Let every chain that is built from now on run as plain Python, with stand-ins for some functions."""
    for name, module in list(sys.modules.items()):
        if name.startswith("approxmcmc.samplers.") and "compile_chain" in vars(module):
            monkeypatch.setattr(
                module, "compile_chain", lambda step, state: Loop(plain(make_chain(step), wrong), state)
            )


def _code_of(function):
    return getattr(function, "py_func", function)


def _plain(function, made):
    function = _code_of(function)
    if function not in made:
        scope, cells = dict(function.__globals__), tuple(types.CellType() for _ in function.__closure__ or ())
        code, defaults = function.__code__, function.__defaults__
        made[function] = types.FunctionType(code, scope, function.__name__, defaults, cells)  # before its callees
        for name in set(function.__code__.co_names) & set(scope):
            scope[name] = _plain_or_same(scope[name], made)
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = _plain_or_same(original.cell_contents, made)
    return made[function]


def _plain_or_same(value, made):
    code = _code_of(value)
    if not isinstance(code, types.FunctionType):
        return value
    is_compiled = code is not value
    return _plain(code, made) if is_compiled or code.__module__.startswith("approxmcmc") or code in made else value
