"""Calls from a kernel to Python: the integer returned, and 0 after an exception."""

import collections

import pytest

from approxmcmc.engine.compiler.compile import entry_point, kernel, type_of
from approxmcmc.engine.compiler.python_call import PythonCall

State = collections.namedtuple("State", ["number", "ask"])


def fail() -> int:
    raise ValueError("planted")


@pytest.mark.needs_jit
def test_one_kernel_asks_whatever_function_its_state_holds(capsys):
    states = [State(1, PythonCall(function)) for function in (lambda: 7, lambda: 2**40, fail)]
    signature = type_of(1)(type_of(states[0]))
    asking = entry_point(kernel(lambda state: state.number + state.ask(), signature, allocates=False), signature)
    assert [asking(state) for state in states] == [8, 2**40 + 1, 1]
    assert "ValueError: planted" in capsys.readouterr().err
