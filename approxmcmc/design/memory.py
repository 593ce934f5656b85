"""The memory that a candidate of the choice may take, and the memory that it would take.

Free memory changes from moment to moment, but the choice must not. So the limit is a share of the total memory of the
machine or container, and never more than 4 GB. Machines with 8 GB or more therefore leave out the same candidates.
"""

from approxmcmc.contracts import Target
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.memory import all_memory
from approxmcmc.targets.regression import Regression

# share of all memory; bytes
SHARE = 0.5
MOST = 4e9
MATRICES = 8  # matrices (dim, dim): a covariance, its factor and its inverse, and temporary copies


def most_memory() -> float:
    """Return the bytes that a candidate may take."""
    return min(MOST, SHARE * all_memory())


def why_too_large(bytes_needed: float) -> str:
    """Return why a candidate that takes `wanted` bytes would take too much memory, or ""."""
    limit = most_memory()
    if bytes_needed <= limit:
        return ""
    return f"it would take {bytes_needed / 1e9:.2g} GB of memory, and may take {limit / 1e9:.2g}"


def of_matrices(dim: int, chains: int) -> float:
    """Return the bytes for a covariance of `dim` parameters, and for its factor in each of `chains` chains."""
    return 8.0 * dim**2 * (MATRICES + chains)


def why_rows_too_large(target: Target, chains: int) -> str:
    """Return why the Taylor expansions of all rows of a target would take too much memory, or ""."""
    dim = target.variables.size
    if isinstance(target, Regression):
        numbers = 4.0 if target.is_dense else float(target.likelihood.n_numbers)
    else:
        numbers = 1.0 + dim + dim * (dim + 1) / 2.0
    matrices = of_matrices(dim, chains)
    too_large = why_too_large(8.0 * numbers * target.n_obs + matrices)
    if too_large and any(is_mapped(array) for array in target.compile().data):  # then the numbers are mapped, too
        return why_too_large(matrices)
    return too_large
