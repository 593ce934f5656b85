"""The tall-data suite: seven logistic regressions on real data, from easy to hard.

MNIST is dense, and its posterior nearly normal; ijcnn1 is sparse and easy. Covertype, a9a and KDD99 with one-hot
columns have rare categories: a few rows carry nearly all of the variance of the terms. In KDD99 the classes are also
nearly separable. EEG has a few gross errors. On each set a sampler that subsamples should find the posterior, or report
that it does not.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.datasets.dataset import Dataset, without_constants
from approxmcmc.datasets.kdd99 import connections_stand_in, kdd99, one_hot_stand_in
from approxmcmc.datasets.libsvm import a9a, firings_stand_in, ijcnn1, people_stand_in
from approxmcmc.datasets.mnist import mnist_7v9_pca
from approxmcmc.datasets.synthetic import synthetic_stand_in
from approxmcmc.datasets.uci import cells_stand_in, covertype, eeg_eye_state, samples_stand_in
from approxmcmc.errors import InvalidInputError

if TYPE_CHECKING:
    from approxmcmc.targets.logistic import LogisticRegression

SMALL = 2000  # rows of generated data


@dataclasses.dataclass(frozen=True)
class Member:
    """One data set of the suite: `load` reads it, ``stand_in(n)`` generates n rows of its kind.

    `prior_scale` and `intercept` are settings of its regression.
    """

    load: Callable[..., Dataset]
    stand_in: Callable[[int], Dataset]
    prior_scale: float = 1.0
    intercept: bool = True


SUITE = {
    # Precision 10 and no intercept, as in Korattikara, Chen and Welling (2014), section 6.1.
    "mnist_7v9": Member(mnist_7v9_pca, synthetic_stand_in, prior_scale=10**-0.5, intercept=False),
    "kdd99": Member(kdd99, connections_stand_in),
    "kdd99_one_hot": Member(functools.partial(kdd99, coding="one_hot"), one_hot_stand_in),
    "covertype": Member(covertype, cells_stand_in),
    "a9a": Member(a9a, people_stand_in),
    "ijcnn1": Member(ijcnn1, firings_stand_in),
    "eeg_eye_state": Member(eeg_eye_state, samples_stand_in),
}
TALL_DATA = tuple(SUITE)
"""Names of the data sets of the suite."""


@naming_the_arguments
def tall_data(name: str, source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return a data set of the suite, without constant columns.

    Parameters
    ----------
    name
        One of `TALL_DATA`.
    source
        As in the loader of the data set; or "synthetic": 2000 generated rows of the same kind, without access to disk
        or network.
    allow_synthetic
        If the data are not available, warn and return generated ones instead of raising.

    Raises
    ------
    InvalidInputError
        When the suite has no such data set, or the data set has no such source.
    DatasetError
        When the data are not available and `allow_synthetic` is False.

    Examples
    --------
    >>> tall_data("covertype", "synthetic").X_train.shape[0]
    2000
    """
    member = _member(name)
    if source == "synthetic":
        return without_constants(member.stand_in(SMALL))
    return without_constants(member.load(source=source, allow_synthetic=allow_synthetic))


@naming_the_arguments
def tall_target(name: str, source: str = "auto", *, allow_synthetic: bool = False) -> "LogisticRegression":
    """Return the logistic regression of a data set of the suite; ``to_pymc()`` gives the same model in PyMC.

    beta_j ~ N(0, 1) on standardised columns with an intercept; for MNIST the prior of Korattikara, Chen and Welling
    (2014), N(0, 1/10) on 50 principal components without intercept.

    Parameters
    ----------
    name, source, allow_synthetic
        As in `tall_data`.

    Returns
    -------
    LogisticRegression
        The posterior given the training rows; the coordinates of `beta` carry the names of the columns.

    Raises
    ------
    InvalidInputError
        When the suite has no such data set, or the data set has no such source.
    DatasetError
        When the data are not available and `allow_synthetic` is False.

    Examples
    --------
    >>> tall_target("covertype", "synthetic").n_obs
    2000
    """
    from approxmcmc.targets.logistic import LogisticRegression  # imported late: it compiles

    member = _member(name)
    data = tall_data(name, source, allow_synthetic=allow_synthetic)
    return LogisticRegression(
        data.X_train,
        data.y_train,
        prior_scale=member.prior_scale,
        intercept=member.intercept,
        coef_names=data.columns,
    )


def _member(name: str) -> Member:
    if name not in SUITE:
        raise InvalidInputError(f"the tall-data suite has {TALL_DATA}, found {name!r}.")
    return SUITE[name]
