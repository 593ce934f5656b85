"""A mixture of two normals with tied means: two parameters, two modes, any number of data.

theta_1 ~ N(0, 10), theta_2 ~ N(0, 1), x_i ~ (1/2) N(theta_1, v) + (1/2) N(theta_1 + theta_2, v), v = 2 (variances).
The likelihood does not change when theta_1 becomes theta_1 + theta_2 and theta_2 becomes -theta_2, so data from (0, 1)
give a second mode near (1, -1). With temperature K the log-likelihood is divided by K, so that 10^6 data at K = 10^4
are as informative as 100.

References: Welling and Teh (2011), section 5.1 (100 data); Seita, Pan, Chen and Canny (2017), section 6.1 (10^6
data, K = 10^4).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.numerics import sigmoid, softplus
from approxmcmc.engine.terms.batches import batch_kernel
from approxmcmc.engine.terms.gradients import gradient_kernel
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.tall_data import Prior, TallDataTarget

PRIOR_VARIANCES = (10.0, 1.0)
# Node pairs in bins of this width, in units of the components' standard deviation, replace the data in the grid
# posterior and in large PyMC twins: the log-likelihood of 10^6 data changes by less than 1e-3 / K.
BIN_WIDTH = 0.02
LARGEST_TWIN = 20_000

# Places in the second array of the data: 1 / (2 v), 1 / K, and -log of the factor 1 / (2 sqrt(2 pi v)) of the density.
HALF_PRECISION = 0
INVERSE_TEMPERATURE = 1
CONSTANT = 2


def _log_term(theta: np.ndarray, data: tuple[np.ndarray, ...], i: int) -> float:
    x, settings = data
    first = x[i] - theta[0]
    second = x[i] - theta[0] - theta[1]
    a = -settings[HALF_PRECISION] * first * first
    b = -settings[HALF_PRECISION] * second * second
    return settings[INVERSE_TEMPERATURE] * (a + softplus(b - a) - settings[CONSTANT])


def _grad_log_term(theta: np.ndarray, data: tuple[np.ndarray, ...], i: int, out: np.ndarray) -> None:
    x, settings = data
    first = x[i] - theta[0]
    second = x[i] - theta[0] - theta[1]
    share = sigmoid(settings[HALF_PRECISION] * (first * first - second * second))  # of the second component
    scale = 2.0 * settings[HALF_PRECISION] * settings[INVERSE_TEMPERATURE]
    out[0] += scale * ((1.0 - share) * first + share * second)
    out[1] += scale * share * second


def _grad_log_prior(theta: np.ndarray, out: np.ndarray) -> None:
    out[0] -= theta[0] / 10.0
    out[1] -= theta[1]


def _log_prior(theta: np.ndarray) -> float:
    return -0.5 * (theta[0] * theta[0] / 10.0 + theta[1] * theta[1])


class GaussianMixture(TallDataTarget):
    """Posterior of the two means, theta1 and theta1 + theta2, of a mixture of two normals with equal weights.

    Parameters
    ----------
    x
        Data, shape (n,).
    variance
        Variance v of both components, known.
    temperature
        K > 0, by which the log-likelihood is divided; 1 gives the posterior.

    Raises
    ------
    InvalidInputError
        If the data are not one axis of finite numbers, or a setting is not positive.

    Notes
    -----
    Priors are theta1 ~ N(0, 10) and theta2 ~ N(0, 1) (variances). The trace holds ``theta1`` and ``theta2``.

    References
    ----------
    Welling and Teh (2011), section 5.1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.targets.GaussianMixture.simulated(1000, random_seed=0)
    GaussianMixture(n_obs=1000, temperature=1.0)
    """

    @naming_the_arguments
    def __init__(self, x: Any, *, variance: float = 2.0, temperature: float = 1.0) -> None:
        x = checked_array(x, "x").astype(np.float64, copy=False)
        if x.ndim != 1 or not x.size:
            raise InvalidInputError(f"GaussianMixture: x must have shape (n,), n >= 1, found {x.shape}")
        for name, value in (("variance", variance), ("temperature", temperature)):
            if not 0.0 < value < math.inf:
                raise InvalidInputError(f"GaussianMixture: {name} must be positive and finite, found {value!r}")
        self.x = x
        self.variance = float(variance)
        self.temperature = float(temperature)
        constant = math.log(2.0) + 0.5 * math.log(2.0 * math.pi * self.variance)
        self.data = (x, np.array([0.5 / self.variance, 1.0 / self.temperature, constant]))
        self.n_obs = x.size
        self.variables = Variables({"theta1": (), "theta2": ()})
        self.prior = Prior(1.0, _log_prior, gradient=_grad_log_prior)

    @classmethod
    def simulated(
        cls,
        n_obs: int,
        *,
        theta: tuple[float, float] = (0.0, 1.0),
        variance: float = 2.0,
        temperature: float = 1.0,
        random_seed: int = 0,
    ) -> "GaussianMixture":
        """Return the posterior given `n_obs` data drawn at `theta` = (theta1, theta2), with this seed."""
        rng = np.random.default_rng(random_seed)
        means = theta[0] + theta[1] * (rng.random(n_obs) < 0.5)
        return cls(means + math.sqrt(variance) * rng.standard_normal(n_obs), variance=variance, temperature=temperature)

    def _log_terms(self) -> Any:
        return batch_kernel(_log_term, self.data)

    def _term_gradients(self) -> Any:
        return gradient_kernel(_grad_log_term, self.data)

    def _identity(self) -> str:
        return content_id(_log_term)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The data x."""
        return {"x": self.x}

    @property
    def bounds(self) -> np.ndarray:
        """A rectangle for a grid, with both modes and all but 1e-8 of the mass of each; shape (2, 2).

        The data determine the midpoint of the two means to within a standard error; their spread and the prior of
        theta2 limit the distance of the means.
        """
        spread = self.x.std() + math.sqrt(self.variance)
        margin = 8.0 * math.sqrt(self.temperature / self.n_obs) * spread
        centre = float(self.x.mean())
        reach = min(2.0 * spread, 3.0) + margin
        return np.array([[centre - reach, centre + reach], [-2.0 * reach, 2.0 * reach]])

    def log_density(self) -> Callable[[np.ndarray], float]:
        """Return the unnormalised log posterior density as a function of theta = (theta1, theta2), for grids.

        It reads a few thousand nodes instead of the data. Two nodes per bin have the same moments up to the third.
        """
        x, weights = self._nodes()

        def log_density(theta: np.ndarray) -> float:
            a, b = (-0.5 / self.variance * (x - mean) ** 2 for mean in (theta[0], theta[0] + theta[1]))
            return float(weights @ np.logaddexp(a, b)) / self.temperature + _log_prior(theta)

        return log_density

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`; above 20 000 data, on the nodes of `log_density`."""
        import pymc as pm

        x, weights = self._nodes() if self.n_obs > LARGEST_TWIN else (self.x, np.ones(self.n_obs))
        with pm.Model() as model:
            theta1, theta2 = (pm.Normal(f"theta{k + 1}", 0.0, math.sqrt(v)) for k, v in enumerate(PRIOR_VARIANCES))
            means = pm.math.stack([theta1, theta1 + theta2])
            law = pm.NormalMixture.dist(w=[0.5, 0.5], mu=means, sigma=math.sqrt(self.variance))
            pm.Potential("x", (weights * pm.logp(law, x)).sum() / self.temperature)
        return model

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes and weights: two per bin, with the count, mean, variance and third moment of the bin's data.

        A bin whose data are equal has one node.
        """
        bins = np.floor(self.x / (BIN_WIDTH * math.sqrt(self.variance)))
        _, bin_of_row, count = np.unique(bins, return_inverse=True, return_counts=True)
        mean = np.bincount(bin_of_row, self.x) / count
        centred = self.x - mean[bin_of_row]
        square, cube = (np.bincount(bin_of_row, centred**power) / count for power in (2, 3))
        spread = square > 0.0
        mean_spread = mean[spread]
        share = count[spread]
        lean = cube[spread] / square[spread]  # the two nodes are the roots of t^2 - lean t - square
        root = np.sqrt(lean**2 + 4.0 * square[spread])
        upper = 0.5 * (lean + root)
        lower = 0.5 * (lean - root)
        weights = (count[~spread], share * -lower / root, share * upper / root)
        return np.concatenate([mean[~spread], mean_spread + upper, mean_spread + lower]), np.concatenate(weights)

    def __repr__(self) -> str:
        """Show size and temperature."""
        return f"GaussianMixture(n_obs={self.n_obs}, temperature={self.temperature})"
