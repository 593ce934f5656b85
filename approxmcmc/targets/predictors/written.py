"""Loops and differences around a function of K + m numbers, written out for these K and m.

Compiled code cannot pass on a number of arguments that is only known at run time, and arrays as arguments would keep
the loop over rows from being vectorised.
"""

from collections.abc import Callable, Sequence
from typing import Any

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, allocating, closure
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.row_reader import row_reader

STEP = 5e-3  # of differences, beside a predictor of size 1; as `targets.linear.numerical_derivatives`


def loop_over_rows(K: int, m: int, lines: Sequence[str], **functions: Any) -> Callable[..., None]:
    """Return ``loop(eta, responses, order, lo, hi, out)``, which runs these lines for each row i.

    A line may name the functions, predictors ``eta0[i]`` and responses ``y0[i]``, see `arguments`.
    """
    make = _loop_maker(K, m, tuple(lines), tuple(functions))
    return closure(make, *functions.values(), fastmath=BATCH_FASTMATH)


def arguments(K: int, m: int) -> str:
    """Return the arguments of the row's function, as text."""
    return ", ".join([*(f"eta{k}[i]" for k in range(K)), *(f"y{k}[i]" for k in range(m))])


@cached_by_content(maxsize=64)
def _loop_maker(K: int, m: int, lines: tuple[str, ...], names: tuple[str, ...]) -> Callable[..., Any]:
    responses, predictors = "".join(f"y{k}, " for k in range(m)), "".join(f"eta{k}, " for k in range(K))
    body = "\n".join(f"            {line}" for line in lines)
    source = f"""
def make({", ".join(names)}):
    def loop(eta, responses, order, lo, hi, out):
        {responses}= rows(responses, order, lo, hi)
        {predictors}= {"".join(f"eta[{k}], " for k in range(K))}
        for i in range(hi - lo):
{body}
    return loop
"""
    return _run(source, {"rows": allocating(row_reader(m))})


def differences(function: Callable[..., float], K: int, m: int) -> Callable[..., tuple[float, ...]]:
    """Return first and second derivatives of a function in its first K arguments, by differences of fourth order.

    Their errors, about 1e-9 and 1e-8 of the scale of the function, make no sampler inexact: what is expanded is a
    little off the Taylor polynomial, and the residual makes up for it.
    """
    return closure(_difference_maker(K, m), function, fastmath=BATCH_FASTMATH)


@cached_by_content(maxsize=16)
def _difference_maker(K: int, m: int) -> Callable[..., Any]:
    names = [*(f"e{k}" for k in range(K)), *(f"y{k}" for k in range(m))]

    def at(**steps: float) -> str:
        """Return the call at a point that is so many steps off, as text."""
        moved = [f"{name} + {steps[name]} * h{name[1:]}" if name in steps else name for name in names]
        return f"at({', '.join(moved)})"

    lines = [f"h{k} = {STEP} * (1.0 + abs(e{k}))" for k in range(K)] + [f"here = {at()}"]
    results = []
    for k in range(K):
        one = f"e{k}"
        lines += [f"{side}{k} = {at(**{one: step})}" for side, step in zip("abcd", (1.0, -1.0, 2.0, -2.0), strict=True)]
        results.append(f"(8.0 * (a{k} - b{k}) - (c{k} - d{k})) / (12.0 * h{k})")
    for k in range(K):
        results.append(f"(16.0 * (a{k} + b{k}) - (c{k} + d{k}) - 30.0 * here) / (12.0 * h{k} * h{k})")
        for j in range(k + 1, K):
            for name, step in (("near", 1.0), ("far", 2.0)):
                one, other = f"e{k}", f"e{j}"
                same = f"{at(**{one: step, other: step})} + {at(**{one: -step, other: -step})}"
                opposite = f"{at(**{one: step, other: -step})} + {at(**{one: -step, other: step})}"
                lines.append(f"{name}{k}_{j} = {same} - ({opposite})")
            results.append(f"(16.0 * near{k}_{j} - far{k}_{j}) / (48.0 * h{k} * h{j})")
    body = "\n".join(f"        {line}" for line in lines)
    source = f"""
def make(at):
    def derivatives({", ".join(names)}):
{body}
        return ({", ".join(results)},)
    return derivatives
"""
    return _run(source, {})


def _run(source: str, scope: dict[str, Any]) -> Callable[..., Any]:
    """Return the function `make` that a source defines."""
    exec(source, scope)
    made: Callable[..., Any] = scope["make"]
    return made
