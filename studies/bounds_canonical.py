"""A normal mean, whose posterior and transition matrices are known: every bound is compared with the truth.

After the theory of Korattikara, Chen and Welling (2014), Austerity in MCMC Land, theorem 1 and section 5: N = 10 000
data of variance 1 with mean 0 and a flat prior, so that the posterior of z = sqrt(N) theta is N(0, 1), the log ratio is
(z^2 - z'^2) / 2 and the scale of its terms |z' - z|. The random walk has standard deviation 2.4 in z, the sequential
test looks at 500 data at a time. On a grid of 201 points from -5 to 5 both transition matrices are known, and with them
the distance between the stationary distributions, the bounds B1 to B5, bias and variance of any mean, and the sampler
with the least risk at each budget. Chains of the real sampler are compared with the same bounds.
"""

import functools

import numpy as np

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds.finite import asymptotic_variance
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.bounds import headings_of
from approxmcmc.study.report.svg import COLOURS, subplots

EPSILONS = (0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2)
N = 10_000
BATCH_SIZE = 500
SCALE = 2.4
BUDGETS = (1e2, 1e3, 1e4, 1e5)  # passes over the data


def loglik(theta, data, i):
    """Return log N(x_i | theta, 1) up to a constant."""
    (x,) = data
    return -0.5 * (x[i] - theta[0]) ** 2


def logprior(theta):
    """Return the log of a flat prior."""
    return 0.0


@functools.cache
def normal_mean(n: int = N):
    """Return a normal mean as target; its data are normal quantiles, scaled to mean 0 and variance 1."""
    from scipy.special import ndtri

    x = ndtri((np.arange(n) + 0.5) / n)
    x = (x - x.mean()) / x.std(ddof=1)
    return amc.FunctionTarget(loglik, logprior, data=x, n_obs=n, dim=1, var_names=("mu",))


@functools.cache
def small_normal_mean():
    """Return the target of preset smoke, with 2000 data."""
    return normal_mean(2000)


def grid_of(target) -> np.ndarray:
    """Return 201 points, -5 to 5 posterior standard deviations."""
    return np.linspace(-5.0, 5.0, 201) / np.sqrt(target.n_obs)


def sequential(epsilon: float, n: int, batch_size: int):
    """Return the random walk with the sequential test at one epsilon, for `n` data."""
    return amc.MetropolisHastings(
        amc.RandomWalk(SCALE / np.sqrt(n)), amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size)
    )


def samplers(n: int, batch_size: int) -> dict:
    """Return the random walk with the sequential test at each of `EPSILONS`, by name."""
    return {"sequential": vary(sequential, epsilon=knob(*EPSILONS), n=n, batch_size=batch_size)}


def exact_draws(results):
    """Return independent draws of the posterior N(0, 1 / N), as a gold standard."""
    import xarray as xr

    n = results.target("normal").n_obs
    draws = np.random.default_rng(1).normal(0.0, n**-0.5, size=(4, 20_000))
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"mu": (("chain", "draw"), draws)})})


@functools.lru_cache(maxsize=2)
def laws(results) -> dict:
    """Return, by epsilon, the transition matrix and the result of `bounds.exact` for it; epsilon 0: exact test."""
    target = results.target("normal")
    grid = grid_of(target)
    setting = results.study.settings()[0].sampler
    T = bounds.transition_matrix(target, amc.MetropolisHastings(setting.proposal, amc.ExactTest()), grid)
    chains_by_epsilon = {0.0: (T, bounds.exact(T, T))}
    for setting in results.study.settings():
        if epsilon := setting.sampler.test.epsilon:
            T_hat = bounds.transition_matrix(target, setting.sampler, grid)
            chains_by_epsilon[epsilon] = (T_hat, bounds.exact(T, T_hat))
    return chains_by_epsilon


def table_of_bounds(results) -> list:
    """Tabulate the true distance and the bounds, each bound with its label."""
    import pandas as pd

    rows = []
    for epsilon, (_, exact) in laws(results).items():
        row = {"epsilon": epsilon} | {name: float(exact[name]) for name in ("tv", "delta_max", "delta", "e_delta")}
        for name in ("b1", "b2", "b3", "b4", "b5", "b3_delta_max"):
            row[name] = f"{float(exact[name]):.3g} {exact[f'label_{name}'].item()}"
            row[f"{name} / truth"] = float(exact[f"looseness_{name}"])
        rows.append(row)
    exact = next(iter(laws(results).values()))[1]
    etas = ", ".join(f"{value:.5f}" for value in exact["eta"].values[:10])
    caption = (
        "Total variation distance between the two stationary distributions on the grid, errors of one step, and "
        "bounds with their labels. Labels are about the two matrices; that the approximate matrix is the sampler's "
        "is heuristic (the Gaussian regime). "
        f"Contraction eta_1 ... eta_10 = {etas}; sum over k >= 0: {float(exact['sum_eta']):.5f}."
    )
    frame = pd.DataFrame(rows)
    headings = headings_of(frame)
    formats = {"epsilon": "g"}
    return [Table("Bounds and truth on the grid", caption, frame, headings=headings, formats=formats)]


def performance(results) -> list:
    """Tabulate bias and variance of the mean of z^2 at every epsilon, and its risk at budgets of full passes."""
    import pandas as pd

    target = results.target("normal")
    grid = grid_of(results.target("normal"))
    z2 = grid**2 * target.n_obs
    rows = []
    proposal = results.study.settings()[0].sampler.proposal.probabilities(target, grid[:, None])
    for epsilon, (T_hat, exact) in laws(results).items():
        law = exact["stationary_hat"].values
        chosen = law[:, None] * proposal
        use = 1.0
        if epsilon:
            test = next(s.sampler.test for s in results.study.settings() if s.sampler.test.epsilon == epsilon)
            z = grid * np.sqrt(target.n_obs)
            log_ratio = 0.5 * (z[:, None] ** 2 - z**2)
            tau = np.abs(z[:, None] - z)
            fraction = amc.acceptance.acceptance_probability_error(
                log_ratio.ravel(), tau.ravel(), epsilon=epsilon, batch_size=test.batch_size, n_obs=target.n_obs
            )["data_fraction"].values.reshape(log_ratio.shape)
            use = float((chosen * fraction).sum() / chosen.sum())
        acceptance = np.nan_to_num(T_hat.coords["decision"].values)
        rows.append(
            {
                "epsilon": epsilon,
                "bias of E z^2": float((law - exact["stationary"].values) @ z2),
                "asymptotic variance": asymptotic_variance(T_hat.values, law, z2),
                "acceptance": float((chosen * acceptance).sum() / chosen.sum()),
                "data used": use,
            }
        )
    frame = pd.DataFrame(rows)
    price = frame["asymptotic variance"] * frame["data used"]
    for budget in BUDGETS:
        risk = frame["bias of E z^2"] ** 2 + price / budget
        frame[f"risk ratio, {budget:g} passes"] = risk / risk[0]
    with np.errstate(divide="ignore"):
        frame["crossover, passes"] = np.where(
            (frame["epsilon"] > 0) & (price < price[0]), (price[0] - price) / frame["bias of E z^2"] ** 2, np.nan
        )
    figure, axes = subplots(1, 1, figsize=(6.4, 4.0))
    budgets = np.geomspace(30, 1e6, 60)
    for index, row in frame.iterrows():
        risk = row["bias of E z^2"] ** 2 + price[index] / budgets
        axes.loglog(budgets, risk / (price[0] / budgets), color=COLOURS[index % len(COLOURS)], label=f"{row.epsilon:g}")
    axes.axhline(1.0, color="gray", linewidth=0.6)
    axes.set_ylim(0.5, 100.0)
    axes.set_xlabel("passes over the data")
    axes.set_ylabel("risk of E z^2 / that of the exact sampler")
    axes.legend(title="epsilon", fontsize=7)
    caption = "Long-run bias and asymptotic variance of the mean of z^2, from the matrices (not from chains)."
    drawn = "Risk relative to the exact sampler at the same number of data read, from the matrices (extrapolation)."
    return [
        Table("Performance on the grid", caption, frame, formats={"epsilon": "g", "data used": ".1%"}),
        Figure("Risk of E z^2 at equal data", drawn, figure, frame),
    ]


study = Study(
    name="bounds_canonical",
    reference="Korattikara, Chen and Welling (2014), Austerity in MCMC Land, theorem 1 and section 5",
    names={
        "sequential": "sequential",
    },
    targets={"normal": normal_mean},
    samplers=samplers(N, BATCH_SIZE),
    budget=Budget(draws=100_000),
    tune=200,
    replicates=8,
    gold=None,
    seed=2014,
    analyses=(table_of_bounds, performance),
    bounds={
        "theorem 1": {
            "target": "normal",
            "sampler": "sequential",
            "grid": lambda results: grid_of(results.target("normal")),
            "reference": exact_draws,
        }
    },
    presets={
        "smoke": {
            "targets": {"normal": small_normal_mean},
            "samplers": samplers(2000, 100),
            "budget": Budget(draws=3000),
            "replicates": 2,
        },
        "quick": {"budget": Budget(draws=10_000), "replicates": 4},
        "published": {"like": "quick", "replicates": 8},
    },
)
