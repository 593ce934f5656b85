"""Functions that kernels call: kept to the kernel, called from Python after all, and what their errors say."""

import collections
import signal

import numba
import pytest
from llvmlite.binding import Linkage
from numba import types as nb
from numba.core.codegen import CPUCodeLibrary
from numba.core.registry import cpu_target

from approxmcmc.engine.compiler import compile as engine
from approxmcmc.engine.compiler.compile import allocating, compiled, entry_point, kernel, type_of
from approxmcmc.engine.compiler.python_call import PythonCall, raise_kept
from tests.interrupts import skip_where_interrupts_are_ignored

pytestmark = [pytest.mark.needs_jit, pytest.mark.core, pytest.mark.compiles_anew]


def kernel_around(callee):
    """Return a kernel of this callee, of one number."""

    def around(x):
        return callee(x) + 1.0

    return kernel(around, nb.float64(nb.float64), cache=False)


def test_python_may_call_what_a_kernel_called_first():
    """A callee has no wrapper for Python; called from there it is compiled in full, and the kernel stays as it was."""
    callee = compiled(lambda x: 2.0 * x)
    around = kernel_around(callee)
    assert around(3.0) == 7.0
    assert callee(3.0) == 6.0 and around(3.0) == 7.0


def test_a_compiled_function_of_pythons_may_call_it_too():
    """The same where Python calls a function that numba compiles by itself."""
    callee = compiled(lambda x: 2.0 * x)
    assert kernel_around(callee)(3.0) == 7.0
    assert numba.njit(lambda x: callee(x) + 1.0)(3.0) == 7.0


def test_errors_of_callees_are_told_in_full():
    """What an error says at run time is read from the callee's environment, which the kernel has to set."""

    @allocating  # what the error holds
    def refuse(x):
        if x > 0.0:
            raise ValueError("not above zero", x)
        return x

    with pytest.raises(ValueError, match="above zero") as caught:
        kernel_around(refuse)(2.5)
    assert caught.value.args == ("not above zero", 2.5)


def test_a_kernel_shares_no_code_with_others():
    """No function of its machine code may be replaced by another of that name in the process."""

    @numba.njit
    def fibonacci(n):  # calls itself twice, so that no optimiser can dissolve it in its caller
        if n < 2:
            return n
        return fibonacci(n - 1) + fibonacci(n - 2)

    assert fibonacci(10) == 55  # now the process has machine code of that name
    around = kernel(lambda n: fibonacci(n) + 1, nb.int64(nb.int64), cache=False)
    assert around(10) == 56
    [result] = around.overloads.values()
    functions = [one for one in result.library._final_module.functions if "fibonacci" in one.name]
    assert {one.linkage for one in functions if not one.is_declaration} == {Linkage.internal}


def test_another_numba_compiles_as_it_does(monkeypatch):
    """Where a private name fails the kernel is compiled all the same."""

    def fails():
        raise AttributeError("a name that another numba does not have")

    monkeypatch.setattr(engine, "whole", fails)
    callee = compiled(lambda x: 3.0 * x)
    assert kernel_around(callee)(3.0) == 10.0
    assert callee(3.0) == 9.0


State = collections.namedtuple("State", ["number", "ask"])


def fail() -> int:
    raise ValueError("planted")


@pytest.mark.needs_jit
def test_one_kernel_asks_whatever_function_its_state_holds():
    states = [State(1, PythonCall(function)) for function in (lambda: 7, lambda: 2**40, fail)]
    signature = type_of(1)(type_of(states[0]))
    asking = entry_point(kernel(lambda state: state.number + state.ask(), signature, allocates=False), signature)
    assert [asking(state) for state in states] == [8, 2**40 + 1, 1]
    with pytest.raises(ValueError, match="planted"):
        raise_kept()
    raise_kept()  # an exception is raised once


@pytest.mark.parametrize("cache", [True, False])
def test_an_interrupt_while_machine_code_is_made_is_not_lost(cache, tmp_path, monkeypatch):
    """LLVM calls Python back with the code, through ctypes, which ignores what is raised there."""
    skip_where_interrupts_are_ignored()
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    notify, machine = CPUCodeLibrary._object_compiled_hook, cpu_target.target_context.codegen()._engine._ee

    def interrupted(module, code):
        signal.raise_signal(signal.SIGINT)
        notify(module, code)

    monkeypatch.setattr(machine, "_object_cache_notify", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel(lambda x: x + 2.71828, nb.float64(nb.float64), cache=cache)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
