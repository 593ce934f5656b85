"""Data sets of the published experiments, checked by content, and synthetic ones for examples."""

from approxmcmc.datasets.dataset import Dataset
from approxmcmc.datasets.mnist import mnist_7v9, mnist_7v9_pca
from approxmcmc.datasets.synthetic import synthetic_logistic, synthetic_stand_in

__all__ = ["Dataset", "mnist_7v9", "mnist_7v9_pca", "synthetic_logistic", "synthetic_stand_in"]
