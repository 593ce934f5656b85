"""Annealed epsilon against every fixed epsilon: on images, and on a normal posterior whose answer is known.

Korattikara, Chen and Welling (2013), Austerity in MCMC Land: Cutting the Metropolis-Hastings Budget, preprint, sec. 7,
suggest to lower epsilon while the chain runs. Here the schedule is planned from a pilot before the chain starts: epochs
double the budget, and each uses the epsilon with the least predicted risk of the pooled mean.

Two parts. Logistic regression of the digits 7 and 9 (section 6.1 of the paper): chains of every fixed epsilon and of
the annealed one, risk of the predictive mean against time and against data read. The canonical case: the posterior N(0,
1) of a normal mean given many data, and the posterior mean of z^2; mean square errors are computed from transition
matrices and not simulated.
"""

import dataclasses
import json
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Component, Sampler
from approxmcmc.study import Budget, Gold, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.tools import gold, mnist
from studies.tools.canonical import arm, mean_square_error
from studies.tools.log_risk import log_risk_against_time

SCALE = 0.01  # standard deviation of the random walk
EPSILONS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2)
BUDGETS = np.geomspace(1e2, 1e6, 17)  # budgets of the canonical case, in passes over the data


@dataclasses.dataclass(frozen=True, eq=False)
class PlannedAnnealing(Component, Sampler):
    """A random walk whose falling epsilon is planned from a pilot run when the chain is built; the pilot is set-up."""

    batch_size: int = 500
    cost: str = "time"
    pilot_steps: int = 500
    seed: int = 0

    def build(self, target: Any, *, audit_every: Any = "auto") -> Any:
        """Run the pilot, and build the sampler with the planned schedule."""
        proposal = amc.RandomWalk(SCALE)
        test = amc.SequentialTTest(batch_size=self.batch_size)
        plan = amc.design.plan_annealing(
            target, proposal=proposal, test=test, epsilons=EPSILONS[::-1], cost=self.cost,
            n_pairs=self.pilot_steps, initvals=amc.laplace(target).mode, random_seed=self.seed,
        )  # fmt: skip
        program = amc.MetropolisHastings(proposal, plan.test).build(target, audit_every=audit_every)
        program.attrs = {
            **program.attrs,
            "annealed": json.dumps({"epsilons": plan.test.epsilons, "steps": plan.test.steps}),
            "setup_pilot_seconds": plan.setup_seconds,
            "setup_pilot_likelihood_evaluations": plan.setup_likelihood_evaluations,
        }
        return program


def fixed(epsilon: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the paper's sampler, a walk with a fixed epsilon; epsilon = 0 is the exact test in its fastest form."""
    test = amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size) if epsilon > 0.0 else amc.ExactTest()
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), test)


def samplers(batch_size: int, cost: str = "time", pilot_steps: int = 5000) -> dict[str, Any]:
    """Return every fixed epsilon, and the annealed one."""
    planned = PlannedAnnealing(batch_size, cost, pilot_steps)
    return {"fixed": vary(fixed, epsilon=knob(*EPSILONS), batch_size=batch_size), "annealed": planned}


def schedules(results: Any) -> list[Any]:
    """Tabulate planned schedules and the pilots' cost; draw epsilon and data used along one annealed chain."""
    import pandas as pd

    traces = next((chains for (_, label), chains in results.traces().items() if label == "annealed"), [])
    if not traces:
        return []
    rows = []
    for trace in traces:
        attrs = trace["posterior"].attrs
        plan = json.loads(attrs["annealed"])
        rows.append(
            {
                "epsilons": ", ".join(f"{epsilon:g}" for epsilon in plan["epsilons"]),
                "steps": ", ".join(f"{steps}" for steps in plan["steps"]) or "none before 0",
                "pilot passes": attrs["setup_pilot_likelihood_evaluations"] / attrs["n_obs"],
                "pilot seconds": attrs["setup_pilot_seconds"],
            }
        )
    stats = traces[0]["sample_stats"]
    thin = int(stats.attrs.get("thin", 1))
    n_obs = stats.attrs["n_obs"]
    epsilon = stats["epsilon"].to_numpy()[0]
    used = stats["datapoints_touched"].to_numpy()[0] / thin / n_obs
    steps = thin * (1 + np.arange(len(epsilon)))
    window = max(1, len(used) // 60)
    smooth = np.convolve(used, np.ones(window) / window, mode="valid")
    figure, (left, right) = subplots(1, 2, figsize=(9.6, 3.4))
    left.step(steps, epsilon, where="pre", color=COLOURS[0])
    left.set_ylabel("epsilon")
    right.plot(steps[window - 1 :], smooth, color=COLOURS[1])
    right.set_ylabel("share of the data read")
    for panel in (left, right):
        panel.set_xlabel("step")
    data = pd.DataFrame({"step": steps, "epsilon": epsilon, "share of the data read": used})
    caption = f"One annealed chain. Right: means over {window * thin} steps."
    table_caption = "What each pilot planned; the last epsilon has no end. Pilot seconds include compilation."
    return [
        Table("Planned epochs", table_caption, pd.DataFrame(rows)),
        Figure("Epsilon along the chain", caption, figure, data),
    ]


def reached(test: Any, budget: float) -> list[tuple[float, int]]:
    """Return epsilon and steps of each epoch that a budget reaches on the canonical case; the last may be cut short."""
    out = []
    left = budget
    for epsilon, steps in zip(test.epsilons, (*test.steps, 2**60), strict=True):
        affordable = min(steps, round(left / arm(epsilon).cost))
        if affordable > 0:
            out.append((epsilon, affordable))
            left -= affordable * arm(epsilon).cost
    return out


def canonical(results: Any) -> list[Any]:
    """Draw the exact risk of the mean of z^2 against the budget, at every fixed epsilon and annealed.

    The schedule is planned from the true bias, variance and cost of each epsilon.
    """
    import pandas as pd

    from approxmcmc.acceptance.annealing_rule import Ingredients

    arms = [arm(epsilon) for epsilon in EPSILONS]
    ingredients = Ingredients(
        np.array(EPSILONS), *(np.array([getattr(a, n) for a in arms]) for n in ("bias", "variance", "cost"))
    )
    test = amc.acceptance.annealing_schedule(ingredients)
    budgets = BUDGETS[:: 4 if results.preset == "smoke" else 1]
    rows = []
    for budget in budgets:
        risks = {f"epsilon = {e:g}": mean_square_error([(e, round(budget / arm(e).cost))]) for e in EPSILONS}
        exact = risks["epsilon = 0"]
        best = min(risks.values())
        annealed = mean_square_error(reached(test, budget))
        for label, value in {**risks, "annealed": annealed}.items():
            rows.append(
                {"passes": budget, "setting": label, "risk": value, "to exact": value / exact, "to best": value / best}
            )
    data = pd.DataFrame(rows)
    figure, grid = subplots(1, 1, figsize=(6.4, 4.2), squeeze=False)
    panel = grid[0][0]
    for index, (label, curve) in enumerate(data.groupby("setting", sort=False)):
        style = {"color": INK, "linewidth": 2.0} if label == "annealed" else {"color": COLOURS[index % len(COLOURS)]}
        panel.plot(curve.passes, curve["to exact"], label=label, **style)
    panel.set_xscale("log")
    panel.set_ylim(0.7, 2.0)
    panel.set_xlabel("budget in passes over the data")
    panel.set_ylabel("risk over that of the exact sampler")
    panel.legend(fontsize=7)
    own = data[data.setting == "annealed"]
    spans = [f"{steps} steps at epsilon {epsilon:g}" for epsilon, steps in zip(test.epsilons, test.steps, strict=False)]
    plan = ", ".join([*spans, f"then epsilon {test.epsilons[-1]:g}"])
    caption = (
        "Risk of the mean of z^2, exact from transition matrices, started in the posterior; the schedule is planned "
        f"from the true bias, variance and cost: {plan}. Curves that are not seen lie above the frame. Annealed over "
        f"best fixed: at most {own['to best'].max():.3f}; annealed over exact: at most {own['to exact'].max():.3f}."
    )
    return [Figure("Canonical case: annealed against every fixed epsilon", caption, figure, data)]


study = Study(
    name="annealed_epsilon",
    reference="Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, sections 6.1 and 7",
    names={
        "fixed": "fixed",
        "mnist_7v9": "MNIST 7 and 9",
        "predictive_mean": "predictive mean",
    },
    targets={"mnist_7v9": mnist.real_posterior},
    samplers=samplers(batch_size=500),
    estimands={"predictive_mean": mnist.predictive_mean},
    average_over=("predictive_mean",),
    budget=Budget(seconds=400.0),
    thin=100,
    audit_every=5000,
    replicates=8,
    gold=Gold(),
    seed=2014,
    analyses=(mnist.note_on_data, canonical, schedules, log_risk_against_time),
    presets={
        "smoke": {
            "targets": {"mnist_7v9": mnist.smoke_posterior},
            "samplers": samplers(batch_size=100, cost="data", pilot_steps=2000),
            "estimands": {"predictive_mean": mnist.smoke_predictive_mean},
            "budget": Budget(draws=200),
            "thin": 20,
            "audit_every": 20,
            "replicates": 2,
            "gold": Gold(chains=2, draws=300, tune=300),
        },
        "quick": {
            "targets": {"mnist_7v9": mnist.any_posterior},
            "samplers": samplers(batch_size=500, pilot_steps=2000),
            "budget": Budget(seconds=5.0),
            "thin": 20,
            "audit_every": 500,
            "replicates": 4,
            "gold": gold.QUICK,
        },
        "published": {
            "like": "quick",
            "targets": {"mnist_7v9": mnist.real_posterior},
            "budget": Budget(seconds=10.0),
            "replicates": 5,
            "gold": gold.BY_CORE_ROWS,
        },
    },
)
