"""SGLD on network connections: fast and biased without a test, slower and less biased with a sequential test.

Korattikara, Chen and Welling (2013), Austerity in MCMC Land: Cutting the Metropolis-Hastings Budget, preprint, 6.2,
figures 5 and 6: logistic regression, malicious against normal connections of KDD99 (10 %, N = 494021), 41 features;
step sizes 5e-4 and 1e-4; L1 error in variance against time for SGLD, exact MH and tests at epsilon .1, .05, .01.

The paper states neither the coding and scaling of columns, nor the prior, nor the minibatch. Here: coding as in
`approxmcmc.datasets.kdd99`, standardised columns, prior precision 10 and minibatches of 500 as in its section 6.1. With
standardised columns a step size of 5e-4 is beyond the stability limit 4 / lambda_max of the Langevin step, 4 / 46800
with a unit prior, so steps are taken in the metric of the Laplace approximation, alpha times its covariance. In this
metric alpha has the same meaning for every target: correlations of the chain last about 2 / alpha steps, and a
minibatch of n inflates the variance by a share of about alpha N / (4 n). About ten scalings and metrics were tried
before this one was chosen, because both step sizes are usable in it and SGLD's bias is large at one and small at the
other: a demonstration in a chosen setting, not an independent confirmation of the paper's numbers. A chain that never
moved has error 1, so only an error well below 1 means that a sampler works. Presets quick and published keep N / n:
every tenth row, minibatches of 50. All presets but paper compare with long exact chains in place of NUTS, to end in
minutes. All chains start in draws of the Laplace approximation: the study measures bias and variance, not the time to
reach the mode. The setting ``schedule`` is proposed at the end of section 6.2, and the paper does not run it: SGLD
first, then the test, then a falling epsilon, in one chain.
"""

import dataclasses
import functools

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Component, Proposal, content_hash
from approxmcmc.datasets import Dataset, connections_stand_in, kdd99
from approxmcmc.datasets.kdd99 import every
from approxmcmc.reference.cache import cached
from approxmcmc.study import Budget, Gold, Study, knob, vary
from approxmcmc.study.measures import seconds_of_draws
from approxmcmc.study.report import Figure, Note, Table
from approxmcmc.study.report.intervals import mean_interval, share_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.tools import austerity_paper
from studies.tools.in_laplace_metric import laplace_of, start

PRIOR_SCALE = 10**-0.5  # precision 10 of the normal prior
STEP_SIZES = (5e-4, 1e-4)
EPSILONS = (0.1, 0.05, 0.01, 0.0)
N_TIMES = 25
# Steps of the schedule: without a test, then at each epsilon but the last, 0, which has no end.
SCHEDULE = {"smoke": (500, 400, 400, 400), "quick": (20_000, 10_000, 10_000, 10_000)}
LONG_SCHEDULE = (50_000, 50_000, 50_000, 30_000)
NAMES = {"sgld": "SGLD", "exact": "exact", "schedule": "SGLD, tests, exact"}
EXACT_DRAWS = {"smoke": 1000, "quick": 6000, "published": 6000}  # of the exact chains in place of a gold standard


@functools.cache
def connections(real: bool = False) -> Dataset:
    """Return KDD99, or generated data if the real ones are not available and `real` is False."""
    return kdd99(allow_synthetic=not real)


@functools.cache
def tenth() -> Dataset:
    """Return every tenth connection, the data of presets quick and published; generated data are returned whole."""
    data = connections()
    return data if data.is_synthetic else every(data, 10)


@functools.cache
def stand_in() -> Dataset:
    """Return the 2000 generated rows of preset smoke, made without network or disk."""
    return connections_stand_in(2000)


def posterior_of(data: Dataset):
    """Return the posterior of a logistic regression with a normal prior of precision 10."""
    return amc.targets.LogisticRegression(data.X_train, data.y_train, prior_scale=PRIOR_SCALE)


def real_posterior():
    """Return the posterior given all connections, or raise."""
    return posterior_of(connections(real=True))


def quick_posterior():
    """Return the posterior given every tenth connection, or given generated data."""
    return posterior_of(tenth())


def smoke_posterior():
    """Return the posterior of preset smoke."""
    return posterior_of(stand_in())


@dataclasses.dataclass(frozen=True, eq=False)
class LangevinInLaplaceMetric(Component, Proposal):
    """SGLD whose step is alpha times the covariance of the Laplace approximation, which is found at set-up."""

    step_size: float
    batch_size: int

    def _proposal(self, target):
        return amc.proposals.StochasticGradientLangevin(
            self.step_size, self.batch_size, preconditioner=laplace_of(target)
        )

    def build_proposal(self, target):
        """Compile the proposal with its density ratio, which a test needs."""
        return self._proposal(target).build_proposal(target)

    def build_unadjusted(self, target):
        """Compile the proposal without a density ratio, for AlwaysAccept."""
        return self._proposal(target).build_unadjusted(target)


def sgld(step_size: float, batch_size: int):
    """Return SGLD without a test."""
    return amc.MetropolisHastings(LangevinInLaplaceMetric(step_size, batch_size), amc.acceptance.AlwaysAccept())


def corrected(step_size: float, epsilon: float, batch_size: int, test_batch_size: int):
    """Return SGLD with the sequential test, the paper's sampler; epsilon = 0 reads all data."""
    test = amc.SequentialTTest(epsilon=epsilon, batch_size=test_batch_size)
    return amc.MetropolisHastings(LangevinInLaplaceMetric(step_size, batch_size), test)


def schedule(step_size: float, steps: tuple[int, ...], batch_size: int, test_batch_size: int):
    """Return SGLD without a test for a while, then with tests whose epsilon falls to 0."""
    test = amc.acceptance.AnnealedEpsilon(
        EPSILONS, steps[1:], amc.SequentialTTest(batch_size=test_batch_size), untested=steps[0]
    )
    return amc.MetropolisHastings(LangevinInLaplaceMetric(step_size, batch_size), test)


def exact(step_size: float, batch_size: int):
    """Return SGLD steps with the exact test."""
    return amc.MetropolisHastings(LangevinInLaplaceMetric(step_size, batch_size), amc.ExactTest())


def samplers(batch_size: int, test_batch_size: int, steps_of: tuple[int, ...] = LONG_SCHEDULE) -> dict:
    """Return the paper's settings and `schedule`; the exact test decides as epsilon = 0 does, at half the cost."""
    steps = knob(*STEP_SIZES)
    both = {"batch_size": batch_size, "test_batch_size": test_batch_size}
    return {
        "sgld": vary(sgld, step_size=steps, batch_size=batch_size),
        "corrected": vary(corrected, step_size=steps, epsilon=knob(*EPSILONS), **both),
        "exact": vary(exact, step_size=steps, batch_size=batch_size),
        "schedule": vary(schedule, step_size=steps, steps=steps_of, **both),
    }


def squared_deviation(posterior):
    """Return (beta - its mean in the chain)^2; the average over draws is the variance."""
    return (posterior["beta"] - posterior["beta"].mean("draw")) ** 2


# --- figures 5 and 6 ---


def true_variance(results) -> tuple[np.ndarray, str]:
    """Return the posterior variances, and their origin: the gold standard, or else long exact chains."""
    gold = results.reference("kdd99")
    if gold is not None:
        return gold["posterior"]["beta"].var(("chain", "draw")).values, "the gold standard"
    target = results.target("kdd99")
    draws = EXACT_DRAWS.get(results.preset, 40_000)

    def compute():
        fit = laplace_of(target)
        mala = amc.MetropolisHastings(amc.Langevin(0.5, preconditioner=fit, target_acceptance=0.574), amc.ExactTest())
        settings = {"tune": 300, "chains": 2, "cores": 1, "random_seed": 1999, "progressbar": False}
        return amc.sample(target, mala, draws=draws, initvals=fit.mode, **settings)

    halves = cached(content_hash("sgld_kdd99", target.content_hash(), draws), None, compute)["posterior"]["beta"]
    chains = halves.var("draw").values
    # Two independent halves differ by twice the error of their mean.
    error = 0.5 * float(np.abs(chains[0] / chains[1] - 1.0).mean())
    return chains.mean(axis=0), f"2 exact chains (MALA) of {draws} draws, own error {error:.2g}"


def running_error(trace, variance: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return mean_k |Var_hat(beta_k) / Var(beta_k) - 1| over the draws made by each time; NaN before the tenth draw."""
    draws = trace["posterior"]["beta"].values[0]
    draws_so_far = np.searchsorted(np.cumsum(seconds_of_draws(trace["sample_stats"]).values[0]), times, side="right")
    centred = draws - draws.mean(axis=0)
    first = np.cumsum(centred, axis=0)
    second = np.cumsum(centred**2, axis=0)
    n = np.maximum(draws_so_far, 1)[:, None]
    running_variance = second[draws_so_far - 1] / n - (first[draws_so_far - 1] / n) ** 2
    errors = np.abs(running_variance / variance - 1.0).mean(axis=1)
    return np.where(draws_so_far < 10, np.nan, errors)


def by_setting(results):
    """Yield step size, name, and traces of every finished setting."""
    for (_, label), traces in results.traces().items():
        for step_size in STEP_SIZES:
            if f"step_size={step_size!r}" in label:
                kind, _, knobs = label.partition("[")
                epsilon = next((k.split("=")[1].rstrip("]") for k in knobs.split(", ") if k.startswith("epsilon")), "")
                yield step_size, f"epsilon = {epsilon}" if epsilon else NAMES[kind], traces


def figures_5_and_6(results) -> list:
    """Draw the L1 error in variance against time, one panel for each step size."""
    import pandas as pd

    variance, origin = true_variance(results)
    rows = []
    for step_size, name, traces in by_setting(results):
        seconds = [float(seconds_of_draws(trace["sample_stats"]).sum()) for trace in traces]
        times = np.geomspace(min(seconds) / 50.0, min(seconds), N_TIMES)
        errors = np.array([running_error(trace, variance, times) for trace in traces])
        for index, time in enumerate(times):
            if np.isfinite(errors[:, index]).all():
                row = {"step_size": step_size, "setting": name, "seconds": float(time)}
                rows.append(row | mean_interval(errors[:, index]).columns("error"))
    data = pd.DataFrame(rows, columns=["step_size", "setting", "seconds", "error", "error_lower", "error_upper"])
    figure, axes = subplots(1, len(STEP_SIZES), figsize=(9.6, 4.2), sharey=True, squeeze=False)
    names = ["SGLD", *(f"epsilon = {epsilon!r}" for epsilon in EPSILONS), NAMES["schedule"], "exact"]
    for panel, step_size in zip(axes[0], STEP_SIZES, strict=True):
        for index, name in enumerate(names):
            curve = data[(data.step_size == step_size) & (data.setting == name)]
            colour, style = (INK, "--") if name == "exact" else (COLOURS[index], "-")
            width = 2.4 if name == NAMES["schedule"] else 1.4
            panel.plot(curve.seconds, curve.error, style, color=colour, label=name, linewidth=width)
        panel.set(xscale="log", yscale="log", xlabel="seconds", title=f"step size {step_size:g}")
    axes[0, 0].set_ylabel("mean relative L1 error in variance")
    axes[0, 0].legend(fontsize=7)
    caption = (
        "Figures 5 and 6 of the paper: mean over the 41 coefficients of |variance of the draws so far / true variance "
        f"- 1|, mean over {results.study.replicates} chains; truth: {origin}. The error is relative, so that all "
        "coefficients count equally. A curve turns flat at its bias; a chain that has not moved has error 1. Thick: "
        "SGLD, then tests whose epsilon falls to 0, in one chain; all its draws count."
    )
    return [Figure("Error in variance against time", caption, figure, data), Table("At the end", "Errors at the last "
            "common time of each setting.", data.groupby(["step_size", "setting"], sort=False).tail(1))]  # fmt: skip


def steps_made(results) -> list:
    """Tabulate steps, data, acceptance, and the ratio of the chains' variance to that of `true_variance`."""
    import pandas as pd

    variance, _ = true_variance(results)
    rows = []
    for step_size, name, traces in by_setting(results):
        stats = [trace["sample_stats"] for trace in traces]
        thin = results.study.thin
        steps = [s.sizes["draw"] * thin for s in stats]
        row = {"step size": step_size, "setting": name, **mean_interval(steps).columns("steps")}
        took = [1e6 * float(seconds_of_draws(s).mean()) / thin for s in stats]
        row |= mean_interval(took).columns("microseconds per step")
        row |= mean_interval(float(s["datapoints_touched"].mean()) / thin for s in stats).columns("data per step")
        row |= share_interval(float(s["acceptance_rate"].mean()) for s in stats).columns("acceptance")
        draws = np.concatenate([trace["posterior"]["beta"].values[0] for trace in traces])
        row["variance / true one"] = float(np.mean(draws.var(axis=0) / variance))
        rows.append(row)
    caption = (
        "Means over chains with Student intervals. The last column is the mean over coefficients of the variance of "
        "all draws of all chains, over the true one."
    )
    return [Table("Steps made", caption, pd.DataFrame(rows), formats={"acceptance": ".3f"})]


def data_used(results) -> list:
    """Return a note on the data: their origin, or that they are generated."""
    data = {"smoke": stand_in, "quick": tenth, "published": tenth}.get(results.preset, connections)()
    note = f"No real connections were used: {data.name}. Compare shapes and orderings with the paper, not values."
    return [Note(note if data.is_synthetic else f"{data.name}: {len(data.y_train)} rows. {data.provenance}.")]


study = Study(
    name="sgld_kdd99",
    reference="Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, section 6.2, figures 5 and 6",
    names={
        "corrected": "corrected",
        "exact": "exact",
        "kdd99": "KDD99",
        "schedule": "schedule",
        "sgld": "SGLD",
    },
    targets={"kdd99": real_posterior},
    samplers=samplers(batch_size=500, test_batch_size=500),
    estimands={"squared_deviation": squared_deviation},
    average_over=("squared_deviation",),
    budget=Budget(seconds=800.0),
    thin=10,
    audit_every=5000,
    replicates=8,
    gold=Gold(),
    seed=1999,
    start=start,
    analyses=(data_used, figures_5_and_6, steps_made),
    paper_values=austerity_paper.figures_5_and_6(STEP_SIZES),
    presets={
        "smoke": {
            "targets": {"kdd99": smoke_posterior},
            "samplers": samplers(batch_size=50, test_batch_size=100, steps_of=SCHEDULE["smoke"]),
            "budget": Budget(draws=300),
            "audit_every": 50,
            "replicates": 2,
            "gold": None,
            "paper_values": {},
        },
        "quick": {
            "targets": {"kdd99": quick_posterior},
            "samplers": samplers(batch_size=50, test_batch_size=500, steps_of=SCHEDULE["quick"]),
            "budget": Budget(seconds=20.0),
            "audit_every": 2000,
            "replicates": 2,
            "gold": None,
        },
        "published": {"like": "quick", "budget": Budget(seconds=10.0), "replicates": 5},
    },
)
