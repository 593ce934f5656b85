"""Austerity on MNIST: a random walk with less data and some wrong decisions, and its risk at equal time.

Korattikara, Chen and Welling (2013), Austerity in MCMC Land: Cutting the Metropolis-Hastings Budget, preprint, section
6.1, figures 1 to 4: logistic regression of 7 against 9 on 50 principal components, N = 12214; risk of the predictive
mean p(y = 1 | x*), averaged over 2037 test points. The paper's rival is the sequential test at epsilon = 0; ``exact``
makes the same decisions from a cached log-likelihood at half the cost, and is the fairer rival.

The paper's algorithm draws fresh random rows for every decision: ``rows``. ``blocks`` reads blocks of each chain's
shuffled copy of the data, the library's default at this size: averaged over the shuffle a decision has the same
distribution, and takes half the time.
"""

import approxmcmc as amc
from approxmcmc.study import Budget, Gold, Study, knob, vary
from approxmcmc.study.report import Table
from studies.tools import austerity_paper, gold, mnist
from studies.tools.cost_of_epsilon import cost_against_epsilon
from studies.tools.log_risk import log_risk_against_time
from studies.tools.marginals import pair_marginals
from studies.tools.t_statistic import t_statistic

SCALE = 0.01  # standard deviation of the random walk
EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.2)


def austerity(epsilon: float, batch_size: int, order: str):
    """Return the paper's sampler, with the paper's order of the data or with blocks."""
    test = amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size, order=order)
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), test)


def bernstein(delta: float, batch_size: int):
    """Return the random walk with the empirical Bernstein test: a decision errs with probability at most delta."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.acceptance.BernsteinTest(delta, batch_size))


def exact():
    """Return the exact sampler."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.ExactTest())


def samplers(batch_size: int) -> dict:
    """Return the settings of the paper in both orders of the data, the exact sampler, and Bernstein's test.

    Bernstein's test is that of Bardenet, Doucet and Holmes (2014).
    """
    family = {
        order: vary(austerity, epsilon=knob(*EPSILONS), batch_size=batch_size, order=order)
        for order in ("rows", "blocks")
    }
    return {**family, "bernstein": vary(bernstein, delta=0.1, batch_size=batch_size), "exact": vary(exact)}


def data_used(results) -> list:
    """Return the table of the data, and a note if the data are generated."""
    import pandas as pd

    data = mnist.data_of(results)
    row = {"data": data.name, "training rows": len(data.y_train), "test rows": len(data.y_test)}
    table = pd.DataFrame([row | {"columns": data.X_train.shape[1], "origin": data.provenance}])
    return [*mnist.note_on_data(results), Table("The data", "What the chains sampled.", table)]


def figure_1(results) -> list:
    """Return the distribution of the t-statistic at n = 500, 5000 and 10000 of 12214, or at the same shares of N."""
    n_obs = results.target("mnist_7v9").n_obs
    sizes = [n * n_obs // 12_214 for n in (500, 5_000, 10_000)]
    return t_statistic(results, sizes=sizes, scale=SCALE, lead="Figure 1 of the paper.")


def figure_2(results) -> list:
    """Return data read and wrong decisions against epsilon."""
    return cost_against_epsilon(results, lead="Figure 2 of the paper.")


def figure_3(results) -> list:
    """Return log risk against time."""
    return log_risk_against_time(results, lead="Figure 3 of the paper, in its axes.")


def figure_4(results) -> list:
    """Return the marginals of two coefficients after 50, 100 and 400 of 400 s, or the same shares of the run."""
    shares = (0.125, 0.25, 1.0)
    lead = "Figure 4 of the paper."
    return pair_marginals(results, variable="beta", epsilons=(0.0, 0.01), fractions=shares, lead=lead)


study = Study(
    name="austerity_mnist",
    reference="Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, section 6.1, figures 1 to 4",
    names={
        "bernstein": "Bernstein",
        "blocks": "blocks",
        "mnist_7v9": "MNIST 7 and 9",
        "predictive_mean": "predictive mean",
        "rows": "rows",
    },
    targets={"mnist_7v9": mnist.real_posterior},
    samplers=samplers(batch_size=500),
    estimands={"predictive_mean": mnist.predictive_mean},
    average_over=("predictive_mean",),
    budget=Budget(seconds=400.0),
    thin=1000,
    replicates=8,
    gold=Gold(),
    seed=2014,
    analyses=(data_used, figure_1, figure_2, figure_3, figure_4),
    paper_values=austerity_paper.figure_3(),
    presets={
        "smoke": {
            "targets": {"mnist_7v9": mnist.smoke_posterior},
            "samplers": samplers(batch_size=100),
            "estimands": {"predictive_mean": mnist.smoke_predictive_mean},
            "budget": Budget(draws=300),
            "thin": 10,
            "audit_every": 10,
            "replicates": 3,
            "gold": Gold(chains=2, draws=500, tune=500),
            "paper_values": {},
        },
        "quick": {
            "targets": {"mnist_7v9": mnist.any_posterior},
            "budget": Budget(seconds=4.0),
            "thin": 10,
            "audit_every": 100,
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
