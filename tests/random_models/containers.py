"""Containers of data and labels of axes: the forms in which users give the same numbers."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

# How an array is written in the script, with {} for its name or its list of numbers.
FLOATS = (
    "np.array({}, dtype='float64')",
    "np.array({}, dtype='float32')",
    "np.array({})",
    "np.asfortranarray({})",
    "np.repeat(np.array({}), 2, axis=0)[::2]",
    "pd.Series({}).to_numpy()",
    "pd.DataFrame({}).to_numpy()",
)
INTEGERS = (
    "np.array({}, dtype='int64')",
    "np.array({}, dtype='int32')",
    "np.array({}, dtype='int8')",
    "np.repeat(np.array({}), 2, axis=0)[::2]",
    "pd.Series({}, dtype='int64').to_numpy()",
)
LABELS = {
    "text": lambda n: [f"{chr(122 - k)}{k}" for k in range(n)],
    "numbers": lambda n: [10 * ((k * 7) % 11) + k for k in range(n)],
    "dates": lambda n: np.array(["2020-01-01"], dtype="datetime64[D]")[0] + np.arange(n)[::-1],
    "one to n": lambda n: list(range(1, n + 1)),
}


def written(draw: Any, array: np.ndarray) -> str:
    """Return code that makes the array, in a random container; a float array of 32 bits must hold it exactly."""
    numbers = repr(array.tolist())
    forms = INTEGERS if array.dtype.kind in "iub" else FLOATS
    wrong = {"pd.DataFrame" if array.ndim != 2 else "pd.Series"}
    if array.dtype.kind == "f" and not (array == array.astype(np.float32)).all():
        wrong.add("float32")
    allowed = [form for form in forms if not any(one in form for one in wrong)]
    return draw(st.sampled_from(allowed)).format(numbers)


def labels(draw: Any, n: int) -> tuple[str, Any]:
    """Return code of the labels of an axis, and the labels."""
    kind = draw(st.sampled_from(sorted(LABELS)))
    made = LABELS[kind](n)
    if kind == "dates":
        return f"np.array({[str(day) for day in made]}, dtype='datetime64[D]')", list(made)
    return repr(made), made
