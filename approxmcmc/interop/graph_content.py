"""Hash the functions of a model before PyTensor compiles them, to look for the compiled code on disk first."""

from collections.abc import Sequence
from typing import Any

import pytensor
from pytensor.printing import debugprint

from approxmcmc.contracts import content_hash
from approxmcmc.engine.compiler.code_version import source_version, version
from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.model_hash import ADDRESS, UNREADABLE


def content_of(identity: str, name: str, inputs: Sequence[Any], graphs: Sequence[Any]) -> str | None:
    """Return the hash of a function derived from graphs, such as their gradient.

    It covers the text of the graphs over numbered inputs, the model with their constants, the `name` of the derived
    function, this package's code, and the versions and flags of the libraries that derive and compile. None if the
    model has no hash, or the text contains a memory address, which the next process would not find again.
    """
    numbered = rebuild(graphs, {one: one.type(f"input_{k}") for k, one in enumerate(inputs)})
    text = str(debugprint(numbered, print_type=True, file="str"))
    if identity.startswith(UNREADABLE) or ADDRESS.search(text):
        return None
    versions = (source_version(), *(version(name) for name in ("pytensor", "pymc", "scipy", "numpy")))
    flags = (str(pytensor.config.numba__fastmath), pytensor.config.floatX)
    return content_hash(identity, name, text, len(inputs), versions, flags)
