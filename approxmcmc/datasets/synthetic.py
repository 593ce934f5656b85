"""Generated data: for examples and measurements, and in place of real data that are not available."""

import math

import numpy as np

from approxmcmc.datasets.dataset import Dataset, checksum
from approxmcmc.errors import InvalidInputError

# Variances of the first 50 principal components of the 12214 training images of MNIST 7 vs 9 (pixels / 255), rounded.
MNIST_7V9_VARIANCES = (
    *(5.294, 3.675, 3.103, 2.877, 2.031, 1.552, 1.413, 1.213, 1.137, 0.880),
    *(0.814, 0.797, 0.722, 0.638, 0.559, 0.539, 0.495, 0.444, 0.430, 0.399),
    *(0.369, 0.349, 0.334, 0.304, 0.299, 0.263, 0.255, 0.238, 0.229, 0.219),
    *(0.213, 0.203, 0.189, 0.181, 0.180, 0.173, 0.170, 0.162, 0.151, 0.139),
    *(0.135, 0.134, 0.126, 0.121, 0.118, 0.114, 0.111, 0.108, 0.104, 0.103),
)
CLASS_DISTANCE = 3.29  # in standard deviations: the best rule is right with probability Phi(3.29 / 2) = .95


def synthetic_stand_in(n_train: int = 12_214, n_test: int = 2037, n_components: int = 50, seed: int = 2014) -> Dataset:
    """Return generated data of the size, spectrum and difficulty of MNIST 7 vs 9 in principal components.

    Two equally frequent Gaussian classes with one covariance matrix, so P(y = 1 | x) = 1 / (1 + exp(-x' beta)) exactly,
    without intercept. The covariance of all rows is diagonal with the variances of the real components, and the best
    rule is right for 95 % of the rows, like logistic regression on real data.

    Parameters
    ----------
    n_train, n_test
        Numbers of rows.
    n_components
        Number of columns, 1 to 50.
    seed
        Seed of the generator; equal seeds give equal data.

    Returns
    -------
    Dataset
        Float64 arrays, with ``is_synthetic=True`` and a name that says so.

    Raises
    ------
    InvalidInputError
        When a size is outside its range.

    Examples
    --------
    >>> data = synthetic_stand_in(n_train=100, n_test=20)
    >>> data.name, data.X_train.shape
    ('synthetic stand-in for MNIST 7 vs 9', (100, 50))
    """
    most = len(MNIST_7V9_VARIANCES)
    if not 1 <= n_components <= most or n_train < 1 or n_test < 0:
        raise InvalidInputError(
            f"the stand-in has 1 to {most} components and at least one training row; found "
            f"n_components={n_components}, n_train={n_train}, n_test={n_test}."
        )
    rng = np.random.default_rng(seed)
    scales = np.sqrt(MNIST_7V9_VARIANCES[:n_components])
    # In units of the scales, the classes have means +-shift/2 and covariance I - shift shift'/4, so that together they
    # have covariance I. Their distance D obeys D^2 = |shift|^2 / (1 - |shift|^2 / 4).
    shift = rng.standard_normal(n_components) * scales
    shift *= CLASS_DISTANCE / math.sqrt(1.0 + CLASS_DISTANCE**2 / 4.0) / np.linalg.norm(shift)
    squared = shift @ shift
    labels = rng.integers(2, size=n_train + n_test, dtype=np.uint8)
    noise = rng.standard_normal((n_train + n_test, n_components))
    noise -= np.outer(noise @ shift, shift) * (1.0 - math.sqrt(1.0 - squared / 4.0)) / squared
    rows = (np.outer(labels - 0.5, shift) + noise) * scales
    return Dataset(
        name="synthetic stand-in for MNIST 7 vs 9",
        X_train=rows[:n_train],
        y_train=labels[:n_train].astype(np.float64),
        X_test=rows[n_train:],
        y_test=labels[n_train:].astype(np.float64),
        provenance=f"generated with seed {seed}: two Gaussian classes with the spectrum of MNIST 7 vs 9",
        sha256=checksum(rows, labels),
        is_synthetic=True,
        component_variances=scales**2,
    )


def synthetic_logistic(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `n` rows of `d` standard normal predictors, and 0/1 responses of a logistic model.

    The coefficients are normal with standard deviation 2 / sqrt(d), so the linear predictor's is about 2.

    Parameters
    ----------
    n, d
        Numbers of rows and of columns, at least 1.
    seed
        Seed of the generator; equal seeds give equal data.

    Returns
    -------
    tuple of np.ndarray
        X, float64 (n, d), and y, uint8 (n,).

    Examples
    --------
    >>> X, y = synthetic_logistic(1000, 3, seed=1)
    >>> X.shape, y.shape
    ((1000, 3), (1000,))
    """
    if n < 1 or d < 1:
        raise InvalidInputError(f"synthetic data have at least one row and one column, found n={n}, d={d}.")
    rng = np.random.default_rng(seed)
    beta = rng.standard_normal(d) * 2.0 / math.sqrt(d)
    X = rng.standard_normal((n, d))
    y = (rng.logistic(size=n) < X @ beta).astype(np.uint8)
    return X, y
