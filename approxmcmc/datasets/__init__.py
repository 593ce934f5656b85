"""Data sets of the published experiments, checked by content, and synthetic ones for examples."""

from approxmcmc.datasets.dataset import Dataset
from approxmcmc.datasets.florentine import florentine_business
from approxmcmc.datasets.kdd99 import connections_stand_in, kdd99
from approxmcmc.datasets.mnist import mnist_7v9, mnist_7v9_pca
from approxmcmc.datasets.molecule import molecule
from approxmcmc.datasets.network import Network
from approxmcmc.datasets.synthetic import synthetic_logistic, synthetic_stand_in

__all__ = [
    "Dataset",
    "Network",
    "connections_stand_in",
    "florentine_business",
    "kdd99",
    "mnist_7v9",
    "mnist_7v9_pca",
    "molecule",
    "synthetic_logistic",
    "synthetic_stand_in",
]
