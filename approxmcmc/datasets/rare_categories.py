"""Generated regressions with rare categories, which make real tall data hard to sample."""

from collections.abc import Sequence

import numpy as np

from approxmcmc.datasets.coding import Columns, one_hot, side_by_side, standardised_dataset
from approxmcmc.datasets.dataset import Dataset, checksum
from approxmcmc.errors import InvalidInputError

CORRELATION = 0.5  # of neighbouring numeric columns
RAREST = 4.0  # expected rows of the rarest level
EFFECT = 1.5  # standard deviation of the linear predictor


def synthetic_categories(
    n: int, n_numeric: int, levels: Sequence[int], *, ones: float = 0.5, title: str = "tall data", seed: int = 0
) -> Dataset:
    """Return standardised numbers and one-hot categories, the rarest with a handful of rows, and logistic responses.

    Numeric columns are normal, neighbours correlated by 0.5. A category with k levels has level j with probability
    proportional to r^j, chosen so that about four rows have the rarest. The linear predictor has standard deviation
    1.5. All rows of the rarest level of each category have response 0: only the prior bounds its coefficient from
    below, and a few rows of very large leverage bound it from above, like a wall.

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
        Float64, no test rows, ``is_synthetic=True``; levels without rows have no column.

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
    rng = np.random.default_rng(seed)
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
        responses[code == k - 1] = 0
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
    """Return probabilities that fall geometrically from level 0 to level k - 1, which has about `RAREST` rows."""
    steepest = (RAREST / n) ** (1.0 / (k - 1))
    weights = steepest ** np.arange(k)
    return weights / weights.sum()
