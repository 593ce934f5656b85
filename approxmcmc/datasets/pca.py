"""Principal components, the same to the last bit in every process on one computer."""

from typing import NamedTuple

import numpy as np

from approxmcmc.errors import InvalidInputError


class PrincipalComponents(NamedTuple):
    """Directions of largest variance.

    `mean` has shape (d,), `loadings` (d, n_components) with orthonormal columns, `variances` (n_components,) with
    divisor n - 1; `total_variance` is the sum over all d components.
    """

    mean: np.ndarray
    loadings: np.ndarray
    variances: np.ndarray
    total_variance: float

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the components of each row, (rows - mean) @ loadings; float64, shape (n, n_components)."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            scores: np.ndarray = (rows - self.mean) @ self.loadings
        return scores


def fit_principal_components(rows: np.ndarray, n_components: int) -> PrincipalComponents:
    """Fit principal components by the eigenvectors of the covariance.

    The loading of largest magnitude of each component is positive, which fixes the signs. One thread is used, so that
    two processes with different thread counts get equal bits, and with them equal content hashes.

    Parameters
    ----------
    rows
        Data; shape (n, d), n > 1.
    n_components
        Number of components, 1 to d.

    Raises
    ------
    InvalidInputError
        When `n_components` is outside its range.

    Examples
    --------
    >>> line = np.array([[0, 0], [1, 1], [2, 2]])
    >>> fit_principal_components(line, 1).variances.round(6).tolist()
    [2.0]
    """
    from threadpoolctl import threadpool_limits

    n, d = rows.shape
    if not 1 <= n_components <= d:
        raise InvalidInputError(f"n_components must lie between 1 and the {d} columns, found {n_components!r}.")
    with threadpool_limits(1):
        mean = rows.mean(axis=0, dtype=np.float64)
        centred = rows - mean
        variances, vectors = np.linalg.eigh(centred.T @ centred / (n - 1))
    loadings = vectors[:, ::-1][:, :n_components]
    largest = loadings[np.abs(loadings).argmax(axis=0), np.arange(n_components)]
    kept = variances[::-1][:n_components]
    return PrincipalComponents(mean, loadings * np.sign(largest), kept, float(variances.sum()))
