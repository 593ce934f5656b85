"""Compiled code as plain Python, and bugs in it: a wrong function, written out in a test, in the place of a right one.

    plant(monkeypatch, {order.draw_next: drawn_with_replacement})

Kernels keep the functions that they were compiled with, so that a bug is planted in plain Python: the code that chains
run, without the compiler.
"""

import sys
import time
import types

from approxmcmc.engine.clock import nanoseconds
from approxmcmc.samplers.chain import make_chain


def plain(function, wrong=None):
    """Return a compiled function, and all that it calls, as plain Python; `wrong` maps functions to their stand-ins."""
    stand_ins = {_code_of(right): stand_in for right, stand_in in (wrong or {}).items()}
    return _plain(function, {_code_of(nanoseconds): time.perf_counter_ns} | stand_ins)


def plant(monkeypatch, wrong):
    """Let every chain that is built from now on run as plain Python, with stand-ins for some functions."""
    for name, module in list(sys.modules.items()):
        if name.startswith("approxmcmc.samplers.") and "compile_chain" in vars(module):
            monkeypatch.setattr(module, "compile_chain", lambda step, state: plain(make_chain(step), wrong))


def _code_of(function):
    return getattr(function, "py_func", function)


def _plain(function, made):
    function = _code_of(function)
    if function not in made:
        cells = [types.CellType(_plain_or_same(cell.cell_contents, made)) for cell in function.__closure__ or ()]
        scope = dict(function.__globals__)
        for name in function.__code__.co_names:
            if name in scope:
                scope[name] = _plain_or_same(scope[name], made)
        code, defaults = function.__code__, function.__defaults__
        made[function] = types.FunctionType(code, scope, function.__name__, defaults, tuple(cells))
    return made[function]


def _plain_or_same(value, made):
    code = _code_of(value)
    if not isinstance(code, types.FunctionType):
        return value
    is_compiled = code is not value
    return _plain(code, made) if is_compiled or code.__module__.startswith("approxmcmc") or code in made else value
