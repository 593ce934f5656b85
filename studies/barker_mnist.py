"""Minibatch Barker on images: logistic regression of the digits 7 and 9, short steps, four tests.

After the second experiment of Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for
Metropolis-Hastings, UAI, section 6.2 (there: 1 against 7 of an enlarged MNIST), on the 12214 images and 50 principal
components of Korattikara, Chen and Welling (2014), so that the two tests meet on the data of the latter.
"""

from typing import Any

import approxmcmc as amc
from approxmcmc.study import Budget, Gold, Study, knob, vary
from studies.tools import gold, mnist
from studies.tools.efficiency import acceptance_error, effective_samples
from studies.tools.log_risk import log_risk_against_time

SCALE = 0.01  # standard deviation of the random walk


def barker(target_variance: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the paper's sampler."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.acceptance.MinibatchBarker(target_variance, batch_size))


def austerity(epsilon: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the sequential test of Korattikara, Chen and Welling (2014)."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.SequentialTTest(epsilon, batch_size))


def exact(rule: str) -> "amc.MetropolisHastings":
    """Return the test on all data, by Metropolis' or by Barker's rule."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.ExactTest(rule))


def samplers(batch_size: int) -> dict[str, Any]:
    """Return the four tests of one proposal."""
    return {
        "barker": vary(barker, target_variance=knob(0.25, 1.0), batch_size=batch_size),
        "austerity": vary(austerity, epsilon=knob(0.0, 0.05), batch_size=500),
        "exact": vary(exact, rule=knob("metropolis", "barker")),
    }


study = Study(
    name="barker_mnist",
    reference="Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test, section 6.2",
    targets={"mnist_7v9": mnist.real_posterior},
    samplers=samplers(batch_size=100),
    estimands={"predictive_mean": mnist.predictive_mean},
    average_over=("predictive_mean",),
    budget=Budget(seconds=400.0),
    thin=100,
    audit_every=5000,
    replicates=8,
    gold=Gold(),
    seed=2017,
    analyses=(mnist.note_on_data, effective_samples, acceptance_error, log_risk_against_time),
    presets={
        "smoke": {
            "targets": {"mnist_7v9": mnist.smoke_posterior},
            "estimands": {"predictive_mean": mnist.smoke_predictive_mean},
            "budget": Budget(draws=200),
            "thin": 10,
            "audit_every": 20,
            "replicates": 2,
            "gold": Gold(chains=2, draws=300, tune=300),
        },
        "quick": {
            "targets": {"mnist_7v9": mnist.any_posterior},
            "budget": Budget(seconds=5.0),
            "thin": 20,
            "audit_every": 500,
            "replicates": 4,
            "gold": gold.QUICK,
        },
        "published": {
            "like": "quick",
            "targets": {"mnist_7v9": mnist.real_posterior},
            "budget": Budget(seconds=20.0),
            "replicates": 5,
            "gold": gold.BY_CORE_ROWS,
        },
    },
)
