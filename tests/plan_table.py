"""Which plan the library takes for each model of `pymc_zoo`, and why it takes none of the others.

`tests/plan_table.toml` holds the plan taken and the reasons, so that a model on another plan, or with another reason,
fails a test. A change that is meant is written by::

    NUMBA_DISABLE_JIT=1 PYTENSOR_FLAGS=mode=FAST_COMPILE,cxx= python -m tests.plan_table

The documentation draws its page from the same answers, with prices. All runs without the compiler, in half a minute.
"""

import json
import sys
import tomllib
import warnings
from pathlib import Path

from approxmcmc.interop.plans import plan_table
from tests import pymc_zoo as zoo

PATH = Path(__file__).with_suffix(".toml")
MODELS = {
    function.__name__.replace("_", " "): function
    for function in (
        *zoo.ACCEPTED,
        zoo.two_observed,
        *zoo.REDUCED,
        *zoo.REFUSED_AT_SIGHT,
        *zoo.REFUSED_WHEN_RUN,
    )
}
TAKEN = "taken"
FITS = "fits"
NOT_TRIED = "not tried: it costs more, and quadrature would be compiled"


def answers_of(name: str) -> dict[str, tuple[str, float]]:
    """Return what each plan answers for a model, by the plan's name, and its price."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyMC's advice on the model
        table = plan_table(zoo.build(MODELS[name]))
    answers = {}
    for answer in table.answers:
        fits = TAKEN if answer.is_taken else FITS if answer.is_tried else NOT_TRIED
        answers[answer.plan.name] = (answer.why_not or fits, answer.seconds)
    return answers


def pinned(name: str) -> dict[str, str]:
    """Return the answers for a model without prices, as they are stored."""
    return {plan: answer for plan, (answer, _) in answers_of(name).items()}


def read() -> dict[str, dict[str, str]]:
    """Return the stored answers by model and plan."""
    return tomllib.loads(PATH.read_text(encoding="utf-8"))


def write() -> None:
    """Store the answers for all models."""
    lines = ["# The plan of each PyMC model, and why it takes none of the others: see tests/plan_table.py."]
    for name in MODELS:
        lines += ["", f"[{json.dumps(name)}]"]
        lines += [f"{json.dumps(plan)} = {json.dumps(answer)}" for plan, answer in pinned(name).items()]
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--json"]:
        sys.stdout.write(json.dumps({name: answers_of(name) for name in MODELS}))
    else:
        write()
