"""Data sets of published experiments, verified by checksum, and generated ones for examples."""

from approxmcmc.datasets.dataset import Dataset
from approxmcmc.datasets.kdd99 import connections_stand_in, kdd99
from approxmcmc.datasets.libsvm import a9a, ijcnn1
from approxmcmc.datasets.mnist import mnist_7v9, mnist_7v9_pca
from approxmcmc.datasets.shipped import Network, florentine_business, molecule, union_members
from approxmcmc.datasets.synthetic import synthetic_categories, synthetic_logistic, synthetic_stand_in
from approxmcmc.datasets.tall import TALL_DATA, tall_data, tall_target
from approxmcmc.datasets.uci import covertype, eeg_eye_state

__all__ = [
    "TALL_DATA",
    "Dataset",
    "Network",
    "a9a",
    "connections_stand_in",
    "covertype",
    "eeg_eye_state",
    "florentine_business",
    "ijcnn1",
    "kdd99",
    "mnist_7v9",
    "mnist_7v9_pca",
    "molecule",
    "synthetic_categories",
    "synthetic_logistic",
    "synthetic_stand_in",
    "tall_data",
    "tall_target",
    "union_members",
]
