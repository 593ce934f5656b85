"""Effects of groups integrated out: by quadrature, by estimates, by Laplace, or not at all.

A posterior of groups can be sampled with the effects of each group integrated out: by quadrature to a stated error
(Pinheiro and Bates 1995); by unbiased estimates of the integrals, kept for the current state (GIMH) or drawn again in
each step (MCWM: Beaumont 2003; Andrieu and Roberts 2009); or by the Laplace approximation, which is quadrature with one
node. Langevin steps with stochastic gradients of the log integrals, by Fisher's identity, have no acceptance test
(Berchuck, Baek, Medeiros and Agazzi 2024, arXiv 2403.03007): noise widens the distribution of the draws, which a linear
map corrects afterwards. NUTS samples all effects with the other parameters.
All are compared with long exact chains on the integrals by quadrature.

Three data sets: repeated visits of 100 persons with an intercept and a slope of their own, like the simulated data of
that paper's authors; 500 groups of three responses 0 or 1, equal in most groups; counts in 200 groups of 1 to 20 rows.
In the gradients the nodes replace the draws of the effects that the paper makes, so that only the minibatch brings
noise. The correction is for a normal posterior: in the metric of the Laplace approximation, steps

    theta' = theta + (a / 2) g + N(0, a I)    with noise of covariance V in the gradient g

have the stationary covariance (I + a V / 4) / (1 - a / 4).
"""

import math
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.reference import exact_chain_reference
from approxmcmc.reference.chain_gates import ChainGates
from approxmcmc.reference.exact_chain import langevin_kernel, mixture_kernel
from approxmcmc.study import Budget, Gold, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.figures import legend_below
from approxmcmc.study.report.intervals import mean_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from approxmcmc.targets.groups.accuracy import MANY_STEPS, terms_of
from studies.tools.group_integrals import by_draws, by_nodes, counts, triples, visits
from studies.tools.in_laplace_metric import InLaplaceMetric, laplace_of, start
from studies.tools.tall_samplers import exact_walk

STEP = 0.1  # step size of stochastic gradients
BATCH = 10  # rows of a minibatch
NODES = (1, 3, 5, 9)
THINNED = 200  # most draws of a chain that get weights
ESTIMATES = 50  # estimates of the likelihood at the mode, whose spread is computed
CORRECTED = "stochastic_gradients, corrected"


def gimh(fit: Any) -> "amc.samplers.PseudoMarginal":
    """Return GIMH: a random walk that keeps the estimate of the current state's likelihood."""
    return amc.samplers.PseudoMarginal(amc.RandomWalk(2.38 / math.sqrt(fit.mode.size), preconditioner=fit))


def mcwm(fit: Any) -> "amc.samplers.PseudoMarginal":
    """Return MCWM: a random walk that draws the estimates at both states anew in each step."""
    return amc.samplers.PseudoMarginal(gimh(fit).proposal, refresh=True)


def stochastic_gradients(fit: Any) -> "amc.MetropolisHastings":
    """Return Langevin steps by the gradients of a few groups."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(STEP, BATCH, fit), amc.acceptance.AlwaysAccept()
    )


def on_estimates(refresh: bool, n_draws: int) -> InLaplaceMetric:
    """Return GIMH or MCWM with this number of draws for each integral."""
    return InLaplaceMetric(mcwm if refresh else gimh, by_draws(n_draws))


def long_chains(target: Any, **how: Any) -> Any:
    """Return long exact chains of Langevin steps; chains of independent proposals and a walk must confirm them."""
    fit = laplace_of(target)
    return exact_chain_reference(target, langevin_kernel(fit), mixture_kernel(fit), cores=1, **how)


# --- the page ---


def flat(posterior: Any) -> np.ndarray:
    """Return the draws of one chain or several; shape (draws, coordinates)."""
    chains = posterior.sizes["chain"]
    draws = posterior.sizes["draw"]
    return np.concatenate([posterior[name].values.reshape(chains * draws, -1) for name in posterior], axis=1)


def truth(results: Any, name: str) -> np.ndarray:
    """Return the draws of the gold standard of the data set `name`, shape (draws, coordinates)."""
    return flat(results.reference(name)["posterior"].to_dataset())


def corrected(target: Any, theta: np.ndarray) -> np.ndarray:
    """Return draws of stochastic gradients, shrunk about their mean by what minibatch noise and step size add."""
    fit = laplace_of(target)
    compiled = target.compile_gradient()
    slopes = np.zeros((target.n_obs, len(fit.mode)))
    for g, slope in enumerate(slopes):
        compiled.add_gradient(fit.mode, compiled.data, np.array([g]), 0, 1, slope)
    half = np.sign(fit.mode)[:, None] * fit.cholesky  # scales are reported without their sign
    noise = target.n_obs * (target.n_obs / BATCH - 1.0) * np.cov(slopes @ fit.cholesky, rowvar=False)
    values, vectors = np.linalg.eigh((np.eye(len(half)) + 0.25 * STEP * noise) / (1.0 - 0.25 * STEP))
    shrink = half @ (vectors / np.sqrt(values)) @ vectors.T @ np.linalg.inv(half)
    mean = theta.mean(axis=0)
    return np.asarray(mean + (theta - mean) @ shrink.T)


def runs_of(results: Any) -> list[tuple[str, str, list[np.ndarray]]]:
    """Return (data, sampler, draws of each chain); stochastic gradients have a second entry with corrected draws."""
    runs = []
    for (name, label), traces in results.traces().items():
        chains = [flat(trace["posterior"].to_dataset()) for trace in traces]
        runs.append((name, label, chains))
        if label == "stochastic_gradients":
            runs.append((name, CORRECTED, [corrected(results.target(name), theta) for theta in chains]))
    return runs


def biases(results: Any) -> list[Any]:
    """Tabulate bias, spread and effective draws of each sampler against the gold standard; draw the scale's density."""
    import arviz as az
    import pandas as pd

    rows = []
    densities = []
    for name, label, chains in runs_of(results):
        true = truth(results, name)
        # Index of the first scale.
        first = -results.target(name).n_effects
        mean = true.mean(axis=0)
        sd = true.std(axis=0)
        shift = np.array([(theta.mean(axis=0) - mean) / sd for theta in chains])
        worst = int(np.abs(shift[:, :first].mean(axis=0)).argmax())
        rows.append(
            {"data": name, "sampler": label}
            | mean_interval(shift[:, first]).columns("bias of the scale")
            | mean_interval(shift[:, worst]).columns("largest bias of a coefficient")
            | mean_interval((theta.std(axis=0) / sd).mean() for theta in chains).columns("sd ratio")
            | mean_interval(float(az.ess(theta[None, :, first])) for theta in chains).columns("ESS of the scale")
            | {"draws": np.mean([len(theta) for theta in chains]), "sd of log p^": noise_of(results, name, label)}
        )
        densities.append(
            {"data": name, "sampler": label, "scale": np.concatenate(chains)[:, first], "true": true[:, first]}
        )
    if not rows:
        return []
    caption = (
        "Of posterior means in posterior standard deviations, and of standard deviations (mean ratio over all "
        "coordinates), against long exact chains on integrals by quadrature; Student intervals over chains. The scale "
        "is the standard deviation of the groups' intercepts. Each chain has the same seconds, of which NUTS spends "
        "some on tuning. sd of log p^: standard deviation of the log of the estimated likelihood at the mode."
    )
    return [
        Figure("Densities of the scale", "Draws of all chains; grey: the long exact chains.", *_densities(densities)),
        Table("Bias, spread and price", caption, pd.DataFrame(rows), formats={"draws": ".0f", "sd of log p^": ".2f"}),
    ]


def noise_of(results: Any, name: str, label: str) -> float:
    """Return the sd of the log-likelihood estimate of sampler `label` on data `name` at the mode; NaN without one."""
    samplers = {setting.label: setting.sampler for setting in results.study.settings()}
    form = getattr(samplers.get(label), "form", None)
    if not getattr(form, "__name__", "").startswith("by_draws"):
        return math.nan
    target = results.target(name)
    rng = np.random.default_rng(0)
    estimator = form(target).build_estimator()
    mode = laplace_of(target).mode
    return float(np.std([estimator.estimate(rng, mode, estimator.data) for _ in range(ESTIMATES)]))


def _densities(runs: Any) -> tuple[Any, Any]:
    """Draw the density of the scale: one panel for each data set, the lines of its samplers over the exact density."""
    import pandas as pd
    from scipy.stats import gaussian_kde

    names, samplers = (list(dict.fromkeys(run[name] for run in runs)) for name in ("data", "sampler"))
    colours = {sampler: COLOURS[index % len(COLOURS)] for index, sampler in enumerate(samplers)}
    figure, axes = subplots(1, len(names), figsize=(3.2 * len(names), 3.6), squeeze=False)
    frames = []
    for panel, name in zip(axes[0], names, strict=True):
        shown = [run for run in runs if run["data"] == name]
        true = shown[0]["true"]
        grid = np.linspace(max(true.mean() - 4.5 * true.std(), 0.0), true.mean() + 4.5 * true.std(), 120)
        panel.fill_between(grid, gaussian_kde(true[:: 1 + len(true) // 4000])(grid), color=INK, alpha=0.18, linewidth=0)
        for run in shown:
            draws = run["scale"][:: 1 + len(run["scale"]) // 4000]
            height = gaussian_kde(draws)(grid) if draws.std() > 0.0 else np.full(len(grid), math.nan)
            panel.plot(grid, height, color=colours[run["sampler"]], label=run["sampler"], linewidth=1.2)
            frames.append(pd.DataFrame({"data": name, "sampler": run["sampler"], "scale": grid, "density": height}))
        panel.set(title=name, xlabel="standard deviation of intercepts")
    axes[0, 0].set_ylabel("density")
    legend_below(figure, axes[0, -1:])
    return figure, pd.concat(frames)


def nodes(results: Any) -> list[Table]:
    """Tabulate errors by the number of nodes: of the summed terms, and of posterior means by weighted exact draws."""
    import pandas as pd

    rows = []
    for name in results.study.targets:
        traces = results.traces().get((name, "quadrature"))
        if not traces:
            continue
        target = results.target(name)
        better = by_nodes(2 * target.n_nodes)(target)
        groups = np.arange(target.n_obs)
        better.set_rule(n_steps=MANY_STEPS)
        sd = truth(results, name).std(axis=0)
        first = -target.n_effects
        thetas = [flat(t["posterior"].to_dataset()) for t in traces]
        thetas = [theta[:: 1 + len(theta) // THINNED] for theta in thetas]
        exact = [terms_of(better, theta, groups).sum(axis=1) for theta in thetas]
        for n_nodes in sorted({*NODES, target.n_nodes}):
            few = by_nodes(n_nodes)(target)
            errors = [terms_of(few, t, groups).sum(axis=1) - e for t, e in zip(thetas, exact, strict=True)]
            shift, effective = zip(*map(weighted_shift, thetas, errors), strict=True)
            shift = np.array(shift) / sd
            worst = int(np.abs(shift[:, :first].mean(axis=0)).argmax())
            rows.append(
                {"data": name, "nodes": n_nodes}
                | mean_interval(np.std(error) for error in errors).columns("sd of the error (nats)")
                | mean_interval(shift[:, first]).columns("bias of the scale")
                | mean_interval(shift[:, worst]).columns("largest bias of a coefficient")
                | {"effective share": float(np.mean(effective))}
            )
    caption = (
        "Nodes for each effect of a group: 1 is the Laplace approximation, and a number other than 1, 3, 5 and 9 is "
        "the library's choice. Error: of the log likelihood, over the posterior, against twice the chosen nodes. "
        f"Biases in posterior standard deviations: at most {THINNED} draws of each exact chain weighted by exp(error), "
        "intervals over chains. Effective share: ESS of the weights per draw; where it is near 0, rely on the chain "
        "of the Laplace approximation."
    )
    formats = {"effective share": ".2f"}
    return [Table("How many nodes", caption, pd.DataFrame(rows), formats=formats)] if rows else []


def weighted_shift(theta: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the mean with weights exp(error) less the plain mean, by coordinate, and the weights' ESS per draw."""
    weight = np.exp(error - error.max())
    weight /= weight.sum()
    return weight @ theta - theta.mean(axis=0), float(1.0 / (len(weight) * (weight**2).sum()))


study = Study(
    name="latent",
    reference="Berchuck, Baek, Medeiros and Agazzi (2024), arXiv 2403.03007; Andrieu and Roberts (2009), section 1",
    names={
        "gimh": "GIMH",
        "laplace": "Laplace",
        "mcwm": "MCWM",
        "n_draws": "draws",
        "sd_intercept": "sd intercept",
        "sd_time": "sd time",
        "stochastic_gradients": "stochastic gradients",
    },
    targets={"visits": visits, "triples": triples, "counts": counts},
    samplers={
        "quadrature": InLaplaceMetric(exact_walk),
        "laplace": InLaplaceMetric(exact_walk, by_nodes(1)),
        "gimh": vary(on_estimates, refresh=False, n_draws=knob(30, 300)),
        "mcwm": vary(on_estimates, refresh=True, n_draws=knob(30, 300)),
        "stochastic_gradients": InLaplaceMetric(stochastic_gradients),
        "nutpie": amc.NUTS(backend="nutpie"),
    },
    budget=Budget(seconds=30.0),
    tune=100,
    audit_every=None,
    replicates=8,
    gold=Gold(chains=4, draws=5000, gates=ChainGates(min_bulk_ess=1500), by=long_chains),
    seed=2403,
    start=start,
    analyses=(biases, nodes),
    presets={
        "smoke": {
            "targets": {"counts": counts},
            "budget": Budget(draws=200),
            "replicates": 2,
            "gold": Gold(chains=2, draws=300, tune=100, by=long_chains),
        },
        "quick": {"budget": Budget(seconds=2.0), "replicates": 2},
        "published": {"like": "quick", "replicates": 5},
    },
)
