"""ADVI of PyMC, on the target's PyMC model, and Pathfinder of pymc-extras; NUTS is in `settings`."""

import contextlib
import dataclasses
import math
import time
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.errors import MissingExtraError
from approxmcmc.whole_chains.approximation import fitted_trace
from approxmcmc.whole_chains.by_pymc import silent
from approxmcmc.whole_chains.trace import LibrarySampler, chain_trace
from approxmcmc.whole_chains.twin import twin_of


@dataclasses.dataclass(frozen=True, eq=False)
class PyMCADVI(LibrarySampler):
    """Automatic differentiation variational inference of PyMC: the best normal with independent coordinates.

    Guarantee: biased; variances are too small if parameters are correlated, however many iterations are made. Optimises
    on all data, from standard deviations of about 0.7, with PyMC's own step sizes. A Bernoulli likelihood given by log
    odds has the gradient NaN at log odds of about 40 in the graph of ADVI: then PyMC raises FloatingPointError.

    Parameters
    ----------
    iterations
        Steps of the optimiser; fewer if the time limit comes first.
    n_draws
        Draws of the fitted distribution.

    Raises
    ------
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    A. Kucukelbir and others (2017), automatic differentiation variational inference.

    Examples
    --------
    >>> amc.whole_chains.PyMCADVI(iterations=2000)
    PyMCADVI(iterations=2000, n_draws=4000)
    """

    iterations: int = 10_000
    n_draws: int = 4000

    def draw_chain(
        self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray
    ) -> xr.DataTree:
        """Fit, and draw from the fitted distribution; see :class:`approxmcmc.whole_chains.ChainSampler`."""
        import pymc as pm

        twin = twin_of(target)
        ends: list[float] = []
        began = time.perf_counter()
        deadline = math.inf

        def note(approximation: Any, loss: Any, i: int) -> None:
            nonlocal deadline
            ends.append(time.perf_counter())
            if i == 1 and seconds is not None:  # the first step compiles
                deadline = limit_clock() + seconds
            if limit_clock() >= deadline:
                raise StopIteration  # PyMC keeps the fit made so far

        with twin.model, silent("pymc"):
            start = twin.point(twin.unconstrain(initial))
            inference = pm.ADVI(start=start, random_seed=seed % 2**32)  # NumPy's older generator takes no larger seed
            approximation = inference.fit(self.iterations, callbacks=[note], progressbar=False)
        spent = (ends[-1] - ends[0]) * len(ends) / max(len(ends) - 1, 1)
        mean, sd = (
            twin.flat({name: data[name].values for name in twin.start})
            for data in (approximation.mean_data, approximation.std_data)
        )
        return fitted_trace(
            self,
            target,
            twin,
            mean,
            np.diag(sd),
            n_draws=min(draws, self.n_draws),
            seed=seed,
            fit_seconds=spent,
            compile_seconds=ends[0] - began,
            gradients=len(ends),
            stopped="time_limit" if len(ends) < self.iterations else "",
        )


@dataclasses.dataclass(frozen=True, eq=False)
class PyMCPathfinder(LibrarySampler):
    """Pathfinder of pymc-extras: the best normal distribution along the path of a quasi-Newton search.

    Guarantee: biased, unless the posterior is normal. The library times the fit as a whole, with its compilation.

    Parameters
    ----------
    n_paths
        Number of searches; several are combined by Pareto-smoothed importance sampling.
    n_draws
        Draws of the fitted distribution.

    Raises
    ------
    MissingExtraError
        When pymc-extras is not installed.
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    L. Zhang, B. Carpenter, A. Gelman, A. Vehtari (2022), algorithms 1 and 2.

    Examples
    --------
    >>> amc.whole_chains.PyMCPathfinder(n_paths=4)
    PyMCPathfinder(n_paths=4, n_draws=1000)
    """

    n_paths: int = 4
    n_draws: int = 1000

    def draw_chain(
        self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray
    ) -> xr.DataTree:
        """Fit, and draw from the fitted distribution; the time limit is ignored."""
        try:
            import pymc_extras
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "PyMCPathfinder needs pymc-extras, which is not installed; no extra of approxmcmc includes it, "
                "because it pins an older PyMC: pip install pymc-extras",
                name=error.name,
            ) from error
        twin = twin_of(target)
        n_draws = min(draws, self.n_draws)
        began = time.perf_counter()
        with contextlib.redirect_stdout(None), silent("pymc"):
            tree = pymc_extras.fit_pathfinder(
                model=twin.model, num_paths=self.n_paths, num_draws=n_draws, random_seed=seed, progressbar=False
            )
        spent = time.perf_counter() - began
        posterior = tree["posterior"].stack(sample=("chain", "draw")).transpose("sample", ...)
        return chain_trace(
            self,
            target,
            {name: posterior[name].values for name in target.variables.shapes},
            seconds=0.0,
            warmup_seconds=spent,
            approximation=True,
        )
