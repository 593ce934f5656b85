"""Posterior distributions; a model of your own is a `FunctionTarget`, `GLMTarget` or `PredictorTarget`."""

from approxmcmc.targets.batches.functions import BatchTarget
from approxmcmc.targets.batches.jax_target import JaxTarget
from approxmcmc.targets.batches.torch_target import TorchTarget
from approxmcmc.targets.beta import BetaRegression
from approxmcmc.targets.binomial import BinomialRegression
from approxmcmc.targets.bounded import BoundedLikelihood
from approxmcmc.targets.cloglog import CloglogRegression
from approxmcmc.targets.compression import compressed
from approxmcmc.targets.discrete.bayesian_network import BayesianNetwork, alarm_network
from approxmcmc.targets.discrete.binary_mrf import BinaryMRF, PseudoLikelihood
from approxmcmc.targets.estimated import EstimatedLikelihood, EstimatedRatio
from approxmcmc.targets.exponential import ExponentialRegression
from approxmcmc.targets.exponential_family import AuxiliaryChain
from approxmcmc.targets.gamma import GammaRegression
from approxmcmc.targets.glm import GLMTarget
from approxmcmc.targets.graphs.ergm import ERGM
from approxmcmc.targets.graphs.statistics import GraphStatistic, degree_statistic, register_statistic
from approxmcmc.targets.groups.normal import NormalGroups
from approxmcmc.targets.groups.target import GroupedTarget
from approxmcmc.targets.ising.ising import Ising
from approxmcmc.targets.logistic import LogisticRegression
from approxmcmc.targets.mixture import GaussianMixture
from approxmcmc.targets.negative_binomial import NegativeBinomialRegression
from approxmcmc.targets.ordered import OrderedRegression
from approxmcmc.targets.poisson import PoissonRegression
from approxmcmc.targets.predictors.assemble import Treatment
from approxmcmc.targets.predictors.target import PredictorTarget
from approxmcmc.targets.probit import ProbitRegression
from approxmcmc.targets.robust import RobustRegression
from approxmcmc.targets.softmax import SoftmaxRegression
from approxmcmc.targets.statistics.regression import LinearRegression
from approxmcmc.targets.user import FunctionTarget
from approxmcmc.targets.weibull import WeibullRegression

__all__ = [
    "ERGM",
    "AuxiliaryChain",
    "BatchTarget",
    "BayesianNetwork",
    "BetaRegression",
    "BinaryMRF",
    "BinomialRegression",
    "BoundedLikelihood",
    "CloglogRegression",
    "EstimatedLikelihood",
    "EstimatedRatio",
    "ExponentialRegression",
    "FunctionTarget",
    "GLMTarget",
    "GammaRegression",
    "GaussianMixture",
    "GraphStatistic",
    "GroupedTarget",
    "Ising",
    "JaxTarget",
    "LinearRegression",
    "LogisticRegression",
    "NegativeBinomialRegression",
    "NormalGroups",
    "OrderedRegression",
    "PoissonRegression",
    "PredictorTarget",
    "ProbitRegression",
    "PseudoLikelihood",
    "RobustRegression",
    "SoftmaxRegression",
    "TorchTarget",
    "Treatment",
    "WeibullRegression",
    "alarm_network",
    "compressed",
    "degree_statistic",
    "register_statistic",
]
