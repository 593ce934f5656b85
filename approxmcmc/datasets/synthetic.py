"""Generated data: for examples and measurements, and in place of real data that are not available."""

import math
from collections.abc import Sequence

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.datasets.dataset import Columns, Dataset, checksum, one_hot, side_by_side, standardised_dataset
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import InvalidInputError

# Variances of the first 50 principal components of the 12214 training images of MNIST 7 vs 9 (pixels / 255), rounded.
MNIST_7V9_VARIANCES = (
    *(5.294, 3.675, 3.103, 2.877, 2.031, 1.552, 1.413, 1.213, 1.137, 0.880),
    *(0.814, 0.797, 0.722, 0.638, 0.559, 0.539, 0.495, 0.444, 0.430, 0.399),
    *(0.369, 0.349, 0.334, 0.304, 0.299, 0.263, 0.255, 0.238, 0.229, 0.219),
    *(0.213, 0.203, 0.189, 0.181, 0.180, 0.173, 0.170, 0.162, 0.151, 0.139),
    *(0.135, 0.134, 0.126, 0.121, 0.118, 0.114, 0.111, 0.108, 0.104, 0.103),
)
# Distance in standard deviations: the best classifier is right with probability Phi(3.29 / 2) = .95.
CLASS_DISTANCE = 3.29


@naming_the_arguments
def synthetic_stand_in(n_train: int = 12_214, n_test: int = 2037, n_components: int = 50, seed: int = 2014) -> Dataset:
    """Return generated data of the size, spectrum and difficulty of MNIST 7 vs 9 in principal components.

    Two equally frequent Gaussian classes with one covariance matrix, so P(y = 1 | x) = 1 / (1 + exp(-x' beta)) exactly,
    without intercept. The covariance of all rows is diagonal with the variances of the real components, and the best
    classifier is right for 95 % of the rows, like logistic regression on the real data.

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
    rng = np.random.default_rng(checked_integer(seed, "seed", 0))
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


@naming_the_arguments
def synthetic_logistic(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `n` rows of `d` standard normal predictors, and 0/1 responses of a logistic model.

    Coefficients are normal with standard deviation 2 / sqrt(d): the linear predictor has a standard deviation of about
    2.

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
    rng = np.random.default_rng(checked_integer(seed, "seed", 0))
    beta = rng.standard_normal(d) * 2.0 / math.sqrt(d)
    X = rng.standard_normal((n, d))
    y = (rng.logistic(size=n) < X @ beta).astype(np.uint8)
    return X, y


CORRELATION = 0.5  # correlation of neighbouring numeric columns
RAREST = 4.0  # n times the probability of the rarest level over that of the most frequent one
EFFECT = 1.5  # standard deviation of the linear predictor


@naming_the_arguments
def synthetic_categories(
    n: int, n_numeric: int, levels: Sequence[int], *, ones: float = 0.5, title: str = "tall data", seed: int = 0
) -> Dataset:
    """Return standardised numbers and one-hot categories, the rarest with a few rows, and logistic responses.

    Numeric columns are normal, neighbours correlated by 0.5. A category with k levels has level j with probability
    proportional to r^j, with r^(k - 1) = 4 / n, so at most about four rows have the rarest level. The linear predictor
    has standard deviation 1.5. All rows of the rarest level of each category have response 0: only the prior bounds its
    coefficient from below, and a few rows of very large leverage bound it from above, like a wall.

    Parameters
    ----------
    n
        Number of rows, at least 100.
    n_numeric
        Number of numeric columns.
    levels
        Number of levels, at least 2, of each category.
    ones
        Share of responses that are 1, apart from the rarest levels.
    title
        Name of the data that these replace.
    seed
        Seed of the generator; equal seeds give equal data.

    Returns
    -------
    Dataset
        Float64 arrays, no test rows, ``is_synthetic=True``; levels without rows have no column.

    Raises
    ------
    InvalidInputError
        When a number is outside its range.

    Examples
    --------
    >>> data = synthetic_categories(1000, 2, [4], seed=1)
    >>> data.columns[:4]
    ('x1', 'x2', 'category1[0]', 'category1[1]')
    """
    if n < 100 or n_numeric < 0 or any(k < 2 for k in levels) or not (n_numeric or len(levels)) or not 0 < ones < 1:
        raise InvalidInputError(
            "synthetic_categories needs n >= 100 rows, at least one column, categories of 2 levels or more and a share "
            f"of ones between 0 and 1; found n={n}, n_numeric={n_numeric}, levels={tuple(levels)}, ones={ones}."
        )
    rng = np.random.default_rng(checked_integer(seed, "seed", 0))
    numbers = rng.standard_normal((n, n_numeric))
    for j in range(1, n_numeric):
        numbers[:, j] = CORRELATION * numbers[:, j - 1] + np.sqrt(1.0 - CORRELATION**2) * numbers[:, j]
    codes = [rng.choice(k, size=n, p=_frequencies(k, n)) for k in levels]
    effects = [rng.standard_normal(k) for k in levels]
    eta = numbers @ rng.standard_normal(n_numeric) + sum(
        effect[code] for effect, code in zip(effects, codes, strict=True)
    )
    eta *= EFFECT / eta.std()
    latent = eta + rng.logistic(size=n)
    responses = (latent > np.quantile(latent, 1.0 - ones)).astype(np.uint8)
    for k, code in zip(levels, codes, strict=True):
        responses[code == k - 1] = 0  # the rarest level, whose coefficient only the prior bounds
    columns = side_by_side(
        [
            Columns(numbers, tuple(f"x{j + 1}" for j in range(n_numeric))),
            *(one_hot(code, f"category{c + 1}") for c, code in enumerate(codes)),
        ]
    )
    return standardised_dataset(
        f"synthetic stand-in for {title}",
        columns,
        responses,
        provenance=f"generated with seed {seed}: {n_numeric} numbers, categories of {tuple(levels)} levels",
        sha256=checksum(columns.values, responses),
        is_synthetic=True,
    )


def _frequencies(k: int, n: int) -> np.ndarray:
    """Return probabilities of k levels that fall geometrically; the last is `RAREST` / n times the first."""
    steepest = (RAREST / n) ** (1.0 / (k - 1))
    weights = steepest ** np.arange(k)
    return weights / weights.sum()
