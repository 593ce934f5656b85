"""NUTS on PyMC models, by nutpie or by PyMC: one code for `sample`, gold standards and studies.

`settings` holds the component `NUTS`, `run` what both libraries share, `by_nutpie` and `by_pymc` the two of them.
"""

from approxmcmc.nuts.settings import NUTS

__all__ = ["NUTS"]
