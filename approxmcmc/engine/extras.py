"""Optional libraries, by the extra that installs them; and the environment variables that set numbers of threads."""

import contextlib
from collections.abc import Iterator

from approxmcmc.errors import MissingExtraError

# The libraries that a plain installation leaves out, by extra: import name and package name.
EXTRAS = {
    "downloads": {"sklearn": "scikit-learn"},
    "nutpie": {"nutpie": "nutpie"},
    "jax": {"jax": "jax", "jaxlib": "jax"},
    "torch": {"torch": "torch"},
    "foreign": {"jax": "jax", "jaxlib": "jax", "blackjax": "blackjax", "numpyro": "numpyro", "emcee": "emcee"},
    "sources": {
        "pyarrow": "pyarrow",
        "zarr": "zarr",
        "dask": "dask",
        "distributed": "distributed",
    },
    "studies": {
        "bokeh": "bokeh",
        "distributed": "distributed",
        "dask": "distributed",
        "jinja2": "jinja2",
        "markupsafe": "jinja2",
    },
}


# Numbers of threads; NumPy, Numba and linear algebra read them when they are loaded, so this file imports none of them.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@contextlib.contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Import libraries of an extra inside this context.

    Parameters
    ----------
    name
        One of `EXTRAS`.
    purpose
        The task that needs them, used as the beginning of the message.

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
        if missing is None:  # an error inside the library, not a missing installation
            raise
        message = f'{purpose} needs {missing}, which is not installed: pip install "approxmcmc[{name}]"'
        raise MissingExtraError(message, name=error.name) from error
