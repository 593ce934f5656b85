"""What a function of a model is, in a hash, before PyTensor compiles it: our disk is asked under that name first."""

from collections.abc import Sequence
from typing import Any

import pytensor
from pytensor.printing import debugprint

from approxmcmc.contracts import content_hash
from approxmcmc.engine.compiler.code_version import source_version, version
from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.model_hash import ADDRESS, UNREADABLE


def content_of(identity: str, name: str, inputs: Sequence[Any], graphs: Sequence[Any]) -> str | None:
    """Return the hash of a function that is derived from graphs, such as their gradient.

    It covers the text of the graphs over numbered inputs, the model that holds their constants, the `name` of what is
    derived, this package's code, and the versions and flags of the libraries that derive and compile. None where the
    model has no hash, or the text an address in memory: the next process would not find it.
    """
    numbered = rebuild(graphs, {one: one.type(f"input_{k}") for k, one in enumerate(inputs)})
    text = str(debugprint(numbered, print_type=True, file="str"))
    if identity.startswith(UNREADABLE) or ADDRESS.search(text):
        return None
    versions = (source_version(), *(version(name) for name in ("pytensor", "pymc", "scipy", "numpy")))
    flags = (str(pytensor.config.numba__fastmath), pytensor.config.floatX)
    return content_hash(identity, name, text, len(inputs), versions, flags)
