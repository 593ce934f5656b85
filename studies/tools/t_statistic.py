"""The distribution of the t-statistic on real terms: resamples compared with Student's t-distribution.

Figure 1 of the preprint of Korattikara, Chen and Welling (2013), for any study of a tall-data target.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.output.reading import flat_draws
from approxmcmc.study.report import Figure
from approxmcmc.study.report.predictions import log_term_differences
from approxmcmc.study.report.svg import COLOURS, subplots
from approxmcmc.study.report.wording import number

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults


def t_statistic(
    results: "StudyResults",
    *,
    sizes: Sequence[int],
    scale: float,
    resamples: int = 4000,
    random_seed: int = 0,
    lead: str = "",
) -> list[Figure]:
    """Compare the t-statistic of n data drawn without replacement with Student's t-distribution, for several n.

    The population is the terms l_i of one decision, at the last draw theta of a chain and a random-walk proposal
    theta', with mean mu. t = (mean - mu) / (s_l / sqrt(n) sqrt(1 - n/N)) should have a t-distribution with n - 1
    degrees of freedom, where the mean and s_l are those of the n terms drawn.

    Parameters
    ----------
    sizes
        Numbers of data n; those below 2, or of N or more, are left out.
    scale
        Standard deviation of the random walk that proposes theta'.
    lead
        Opens the caption: the published figure that this one repeats.
    """
    import pandas as pd
    from scipy import stats

    rng = np.random.default_rng(random_seed)
    (target_name, _), traces = next(iter(results.traces().items()))
    target = results.target(target_name)
    theta = flat_draws(traces[0], target)[-1, -1]
    terms = log_term_differences(target, theta, theta + scale * rng.standard_normal(theta.shape))
    sizes = [n for n in sizes if 2 <= n < terms.size]
    figure, axes = subplots(1, len(sizes), figsize=(9.6, 3.4), sharey=True, squeeze=False)
    grid = np.linspace(-4.5, 4.5, 181)
    edges = np.linspace(-4.5, 4.5, 46)
    rows = []
    verdicts = []
    for panel, n in zip(axes[0], sizes, strict=True):
        t = np.array([_t(rng.choice(terms, size=n, replace=False), terms) for _ in range(resamples)])
        test = stats.kstest(t, stats.t(n - 1).cdf)
        verdicts.append(f"n = {n:,}: distance {number(float(test.statistic))}, p = {number(float(test.pvalue))}")
        density, _ = np.histogram(t, bins=edges, density=True)
        panel.stairs(density, edges, fill=True, color=COLOURS[0], alpha=0.55)
        panel.plot(grid, stats.t(n - 1).pdf(grid), color=COLOURS[1], linewidth=2)
        panel.set_title(f"n = {n:,}")
        panel.set_xlabel("t-statistic")
        rows += [{"n": n, "resample": i, "t": value} for i, value in enumerate(t)]
    axes[0, 0].set_ylabel("density")
    band = 1.36 / np.sqrt(resamples)
    caption = (
        f"{lead} Bars: t-statistic of {resamples:,} resamples of n terms without replacement from "
        f"the N = {terms.size:,} terms of one proposal; curve: t-distribution with n − 1 degrees of freedom. "
        f"Kolmogorov-Smirnov: {'; '.join(verdicts)} (distances up to {number(band)} arise by chance in 95 % of such "
        "samples)."
    )
    return [Figure("Law of the t-statistic", caption.lstrip(), figure, pd.DataFrame(rows))]


def _t(sample: np.ndarray, population: np.ndarray) -> float:
    n = sample.size
    n_obs = population.size
    s = sample.std(ddof=1) / np.sqrt(n) * np.sqrt(1.0 - n / n_obs)
    return float((sample.mean() - population.mean()) / s)
