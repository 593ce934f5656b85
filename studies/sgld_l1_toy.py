"""SGLD loses probability near a kink, and a test restores it: regression on one predictor with an L1 prior.

Korattikara, Chen and Welling (2014), Austerity in MCMC Land, an example of the conference version only: N = 10000, y =
0.5 x + noise of variance 1 / lambda with lambda = 3, prior exp(-lambda_0 |theta|) with lambda_0 = 4950, step size 5e-6,
minibatches of 500, sequential test at epsilon = 0.5, which always stops after its first look. x is uniform on [0, 1),
so that lambda sum x_i y_i is about lambda_0: the mode lies near the kink at 0, where the gradient jumps by 2 lambda_0.
Just left of the kink the drift of a step is about alpha lambda_0, 11 standard deviations of its noise: an uncorrected
chain that has crossed the kink goes far to the right, so its draws have too little probability near the kink. The
exact density is known in closed form, up to one integral on a grid.
"""

import functools

import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Note, Table
from approxmcmc.study.report.intervals import mean_interval, share_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots

N = 10_000
SLOPE = 0.5
PRECISION = 3.0
PENALTY = 4950.0
STEP_SIZE = 5e-6
SEED = 2014
EPSILONS = (0.0, 0.05, 0.5)


def loglik(theta, data, i):
    """Return -(lambda / 2) (y_i - x_i theta)^2."""
    x, y = data
    return -0.5 * PRECISION * (y[i] - x[i] * theta[0]) ** 2


def grad_loglik(theta, data, i, out):
    """Add the gradient of `loglik` to `out`."""
    x, y = data
    out[0] += PRECISION * x[i] * (y[i] - x[i] * theta[0])


def logprior(theta):
    """Return -lambda_0 |theta|."""
    return -PENALTY * abs(theta[0])


def grad_logprior(theta, out):
    """Add the gradient of the log prior to `out`; 0 at the kink."""
    out[0] -= PENALTY * np.sign(theta[0])


@functools.cache
def simulated() -> tuple[np.ndarray, np.ndarray]:
    """Return the simulated predictor x and the responses y, shape (N,) each."""
    rng = np.random.default_rng(SEED)
    x = rng.random(N)
    return x, SLOPE * x + rng.standard_normal(N) / PRECISION**0.5


def regression():
    """Return the posterior of the slope."""
    return amc.FunctionTarget(
        loglik, logprior, data=simulated(), n_obs=N, dim=1, grad_loglik=grad_loglik, grad_logprior=grad_logprior,
        var_names=("slope",), initial_point=[0.01],
    )  # fmt: skip


def density(grid: np.ndarray) -> np.ndarray:
    """Return the exact posterior density on an even grid that holds all its mass."""
    x, y = simulated()
    log = PRECISION * ((x @ y) * grid - 0.5 * (x @ x) * grid**2) - PENALTY * np.abs(grid)
    weights = np.exp(log - log.max())
    return weights / (weights.sum() * (grid[1] - grid[0]))


def sgld(batch_size: int):
    """Return SGLD without a test."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(STEP_SIZE, batch_size), amc.acceptance.AlwaysAccept()
    )


def corrected(epsilon: float, batch_size: int):
    """Return SGLD with the sequential test."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(STEP_SIZE, batch_size), amc.SequentialTTest(epsilon, batch_size)
    )


def samplers(batch_size: int) -> dict:
    """Return SGLD without a test, and with the sequential test at each epsilon, by name."""
    family = vary(corrected, epsilon=knob(*EPSILONS), batch_size=batch_size)
    return {"sgld": vary(sgld, batch_size=batch_size), "corrected": family}


def start(target, rng):
    """Return a point near the mode, right of the kink.

    From just left of the kink a step goes so far to the right that the test hardly ever accepts it, because the reverse
    step is too improbable.
    """
    return np.array([abs(0.01 * rng.standard_normal())])


def longest_stay(inside: np.ndarray) -> int:
    """Return the largest number of consecutive True values in `inside`."""
    outside = np.flatnonzero(np.concatenate([[True], ~inside, [True]]))
    return int(np.diff(outside).max() - 1)


def histograms(results) -> list:
    """Draw the density of each setting's draws over the exact one, and tabulate distances and masses near the kink."""
    import pandas as pd

    grid = np.linspace(-0.06, 0.06, 6001)
    exact = density(grid)
    width = grid[1] - grid[0]
    edges = np.linspace(-0.02, 0.06, 121)
    mass = np.diff(np.interp(edges, grid, np.cumsum(exact) * width))
    spread = np.sqrt(np.sum(exact * grid**2) * width - (np.sum(exact * grid) * width) ** 2)
    near = (grid >= 0.0) & (grid < 0.5 * spread)
    true_near = float(exact[near].sum() * width)
    traces = results.traces()
    figure, axes = subplots(
        1, max(len(traces), 1), figsize=(2.9 * max(len(traces), 1), 3.0), sharey=True, squeeze=False
    )
    rows = []
    curves = []
    for panel, (index, ((_, label), chains)) in zip(axes[0], enumerate(traces.items()), strict=True):
        counts = [np.histogram(t["posterior"]["slope"].values, edges)[0] / t["posterior"].sizes["draw"] for t in chains]
        draws = [t["posterior"]["slope"].values[0] for t in chains]
        share = np.mean(counts, axis=0)
        panel.stairs(share / np.diff(edges), edges, fill=True, color=COLOURS[index], alpha=0.6)
        panel.plot(grid, exact, color=INK, linewidth=1.0)
        panel.set(title=label, xlabel="slope", xticks=(0.0, 0.04))
        stats = [t["sample_stats"] for t in chains]
        rows.append(
            {"setting": label}
            | mean_interval([0.5 * float(np.abs(c - mass).sum()) for c in counts]).columns("TV to the posterior")
            | mean_interval([float(np.mean((d >= 0.0) & (d < 0.5 * spread))) for d in draws]).columns(
                "mass near the kink"
            )
            | {"the same, exact": true_near}
            | {"longest stay left of the kink": max(longest_stay(d < 0.0) for d in draws) * results.study.thin}
            | share_interval(float(s["acceptance_rate"].mean()) for s in stats).columns("acceptance")
            | mean_interval(float(s["datapoints_touched"].mean()) / results.study.thin for s in stats).columns(
                "data per step"
            )
        )
        curves += [
            {"setting": label, "slope": float(e), "share": float(c)} for e, c in zip(edges[:-1], share, strict=True)
        ]
    axes[0, 0].set_ylabel("density")
    caption = "Draws of all chains (filled) and the exact posterior density (line)."
    table = pd.DataFrame(rows)
    return [
        Note("TV is computed over 120 bins, above 0 for exact samplers too: see the row of epsilon = 0.0."),
        Figure("Densities near the kink", caption, figure, pd.DataFrame(curves)),
        Table("How much is lost near the kink", "Mass between the kink and half a posterior standard deviation, "
              "and the longest stay on the other side of the kink, in steps of any chain.", table,
              formats={"acceptance": ".3f"}),
    ]  # fmt: skip


study = Study(
    name="sgld_l1_toy",
    reference="Korattikara, Chen and Welling (2014), Austerity in MCMC Land, conference version: L1 prior",
    names={
        "corrected": "corrected",
        "sgld": "SGLD",
    },
    targets={"regression": regression},
    samplers=samplers(batch_size=500),
    budget=Budget(draws=100_000),
    tune=500,
    thin=10,
    audit_every=1000,
    replicates=8,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(histograms,),
    presets={
        "smoke": {"budget": Budget(draws=500), "replicates": 2, "audit_every": 100},
        "quick": {"budget": Budget(draws=10_000), "replicates": 3},
        "published": {"budget": Budget(draws=40_000)},
    },
)
