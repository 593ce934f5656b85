"""The law of a pairing: parameters and data are drawn together, and a chain from there must stay a draw of their law.

    theta_0 ~ prior,  y ~ p(y | theta_0);  k steps of the sampler on the posterior given y, from theta_0.

If every step leaves p(theta | y) invariant, then (theta_t, y) has the joint law for each t, and theta_t the prior's
(Geweke 2004). Functions f(theta, y) are compared with their expectations; functions of both detect much more than
functions of theta_t alone. They are whitened by the posterior's moments, so that a variance off by 10 % is that of the
*posterior*. Data sets are drawn first and shared by many replicates; given y, theta_0 is a draw of p(theta | y). So
replicates are independent given the data, and compiled kernels see other arrays of the same type.

The posterior given y is known from many scrambled Sobol points of the prior, weighted by a likelihood that is written
in NumPy in `tests.pairings.worlds`: no code of the library, but for targets whose likelihood is only known there.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from scipy import stats as laws

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import streams
from tests.pairings.worlds import WORLDS, World

Z = 6.2  # two-sided 5.6e-10: a few thousand comparisons stay below 1e-5, see tests/statistical/README.md
SEEN = Z + 3.1  # standard errors of a discrepancy that is rejected with probability .999
POINTS = 2**16  # of the prior
KNOTS = np.linspace(0.0, 1.0, 513)  # of the distribution function that makes ranks


class Posterior:
    """The law of theta given one data set, by weighted points, and the functions that are compared."""

    def __init__(self, world: World, data: Any, rng: np.random.Generator) -> None:
        self.world, self.data = world, data
        for n_points in (POINTS, 16 * POINTS):  # the second for data of a theta in the tails of the prior
            points = world.points(rng, n_points)
            log_weights = world.log_likelihood(points, data)
            weights = np.exp(log_weights - log_weights.max())
            weights /= weights.sum()
            effective = 1.0 / (weights**2).sum()
            if enough := effective > min(500.0, 0.01 * len(points)):
                break
        assert enough, f"{effective:.0f} points hold the posterior: too few"
        heavy = weights > 0.0 if world.prior is None else weights > 1e-12 * weights.max()
        self.points, log_weights = points[heavy], log_weights[heavy]
        self.weights = weights[heavy] / weights[heavy].sum()
        self.mean = self.weights @ self.points
        centred = self.points - self.mean
        self.whiten = np.linalg.inv(np.linalg.cholesky((centred * self.weights[:, None]).T @ centred))
        self.quantiles = [self._quantiles(column) for column in self.points.T]
        level = self.weights @ log_weights
        self.log_likelihood = (level, math.sqrt(self.weights @ (log_weights - level) ** 2))
        self.expected = self.weights @ self.features(self.points)

    def _quantiles(self, column: np.ndarray) -> np.ndarray:
        order = np.argsort(column)
        cumulated = np.cumsum(self.weights[order])
        return np.interp(KNOTS, cumulated, column[order])

    def features(self, thetas: np.ndarray) -> np.ndarray:
        """Return the functions that are compared, shape (n, functions), of thetas of shape (n, dim)."""
        z = (thetas - self.mean) @ self.whiten.T
        ranks = np.column_stack([np.interp(x, q, KNOTS) for x, q in zip(thetas.T, self.quantiles, strict=True)])
        level, spread = self.log_likelihood
        fit = (self.world.log_likelihood(thetas, self.data) - level) / spread
        pairs = [z[:, i] * z[:, j] for i in range(z.shape[1]) for j in range(i)]
        return np.column_stack([z, z**2, *pairs, ranks, 12.0 * (ranks - 0.5) ** 2, fit])

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return independent draws; shape (n, dim)."""
        return self.points[rng.choice(len(self.points), size=n, p=self.weights)]


def function_names(dim: int) -> list[str]:
    """Return the names of the columns of `Posterior.features`."""
    each = [f"{j}" for j in range(dim)]
    pairs = [f"product {i}{j}" for i in range(dim) for j in range(i)]
    names = [f"mean {j}" for j in each] + [f"variance {j}" for j in each] + pairs
    return names + [f"rank {j}" for j in each] + [f"spread of ranks {j}" for j in each] + ["log-likelihood"]


@functools.cache
def data_sets(world: str, seed: int) -> list[tuple[Any, Posterior]]:
    """Return targets with drawn data, and their posteriors, of one world; the same for all its pairings."""
    made, rng = WORLDS[world], np.random.default_rng(seed)
    found = []
    for _ in range(made.n_data_sets):
        data = made.draw_data(rng, made.points(rng, 1)[0])
        found.append((made.target(data), Posterior(made, data, rng)))
    return found


class Verdict(NamedTuple):
    """The deviations `z` of the functions' means from their expectations, in standard errors, and these errors.

    `error` holds the standard errors, in posterior standard deviations for means, as a share for variances.
    """

    names: list[str]
    z: np.ndarray
    error: np.ndarray
    replicates: int
    steps: int

    @property
    def worst(self) -> float:
        """The largest deviation."""
        return float(np.abs(self.z).max())

    @property
    def p(self) -> float:
        """Its two-sided p-value, of one comparison."""
        return float(2.0 * laws.norm.sf(self.worst))

    def of(self, kind: str) -> float:
        """Return the largest standard error among functions of one kind."""
        return float(max(e for name, e in zip(self.names, self.error, strict=True) if name.startswith(kind)))

    def __str__(self) -> str:
        """Name the function that is worst."""
        k = int(np.argmax(np.abs(self.z)))
        return (
            f"{self.names[k]} is off by {self.z[k]:.2f} standard errors (p {self.p:.1e}, "
            f"{self.z[k] * self.error[k]:+.4f}); "
            f"{self.replicates} replicates of {self.steps} steps; seen with power .999: means off by "
            f"{SEEN * self.of('mean'):.3f} sd, variances by {SEEN * self.of('variance'):.1%}"
        )


def judge(
    world: str, sampler: Any, seed: int, *, data_seed: int = 0, draws: int = 100, thin: int = 8, first: int = 80,
    goals: tuple[float, float] = (0.0, 0.0), most: int = 80,
) -> Verdict:  # fmt: skip
    """Run chains of a sampler from draws of the joint law, and compare the functions with their expectations.

    `first` replicates give the standard errors; more are made, at most `most` in all, until the standard errors of
    means and variances are those in `goals`.
    """
    sets = data_sets(world, data_seed)
    programs = [sampler.build(target, audit_every=None) for target, _ in sets]
    rng = np.random.default_rng(seed)

    def run(replicates: int) -> np.ndarray:
        shares = [len(part) for part in np.array_split(np.arange(replicates), len(sets))]
        rows = [
            replicate(program, posterior, rng, share, draws, thin, WORLDS[world].burn)
            for program, (_, posterior), share in zip(programs, sets, shares, strict=True)
        ]
        return np.concatenate(rows)

    def error(found: np.ndarray) -> np.ndarray:
        return np.sqrt((found**2).mean(axis=0) / len(found))

    names, found = function_names(sets[0][1].points.shape[1]), run(first)
    while len(found) < most:
        so_far = Verdict(names, error(found), error(found), len(found), draws * thin)
        ratio = max(so_far.of("mean") / goals[0], so_far.of("variance") / goals[1])
        wanted = min(most, math.ceil(1.1 * len(found) * ratio**2))
        if wanted <= len(found):
            break
        found = np.concatenate([found, run(max(wanted - len(found), len(sets)))])  # some of each data set
    return Verdict(names, found.mean(axis=0) / error(found), error(found), len(found), draws * thin)


def replicate(
    program: Any, posterior: Posterior, rng: np.random.Generator, n: int, draws: int, thin: int, burn: int
) -> np.ndarray:
    """Return the deviations of the functions' means along n chains; shape (n, functions)."""
    dim = posterior.points.shape[1]
    thetas = np.empty((n, draws, dim))
    counts, values = np.empty((draws, len(COUNT_NAMES)), np.int64), np.empty((draws, len(VALUE_NAMES)))
    own = streams(np.random.SeedSequence(int(rng.integers(2**62))))  # of all chains, one after the other
    for out, start in zip(thetas, posterior.draw(rng, n), strict=True):
        chain = program.start(start, own, 0)
        fill_population(chain, posterior, rng)
        if burn:
            chain.advance(burn, burn, out, counts, values)
        done = chain.advance(draws * thin, thin, out, counts, values)
        assert done == draws * thin, chain.explain_failure()
    features = posterior.features(thetas.reshape(-1, dim)).reshape(n, draws, -1)
    return features.mean(axis=1) - posterior.expected


def fill_population(chain: Any, posterior: Posterior, rng: np.random.Generator) -> None:
    """Replace all members of a population, if the chain has one, by draws of the posterior.

    A population starts around one point.
    """
    for part in chain.state:
        if hasattr(part, "members"):
            part.members[:] = posterior.draw(rng, len(part.members))
            part.members[0] = chain.state.theta
            part.turn[0] = 0
