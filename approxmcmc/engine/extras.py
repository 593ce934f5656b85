"""Libraries that only some tasks need. Where one is missing, the error names the extra that brings it."""

import contextlib
from collections.abc import Iterator

from approxmcmc.errors import MissingExtraError

# What a plain installation leaves out, by extra: the names under which it is imported and installed.
EXTRAS = {
    "downloads": {"sklearn": "scikit-learn"},
    "foreign": {"jax": "jax", "jaxlib": "jax", "blackjax": "blackjax", "numpyro": "numpyro"},
    "sources": {
        "pyarrow": "pyarrow",
        "zarr": "zarr",
        "dask": "dask",
        "distributed": "distributed",
    },
    "studies": {"distributed": "distributed", "dask": "distributed", "jinja2": "jinja2", "markupsafe": "jinja2"},
}


@contextlib.contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Import libraries of an extra inside.

    Parameters
    ----------
    name
        One of `EXTRAS`.
    purpose
        What they are needed for, as the message begins.

    Raises
    ------
    MissingExtraError
        When one of them is not installed.

    Examples
    --------
    >>> with extra("studies", "A report"):
    ...     import jinja2
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = EXTRAS[name].get((error.name or "").partition(".")[0])
        if missing is None:  # a fault of the library, not of the installation
            raise
        message = f'{purpose} needs {missing}, which is not installed: pip install "approxmcmc[{name}]"'
        raise MissingExtraError(message, name=error.name) from error
