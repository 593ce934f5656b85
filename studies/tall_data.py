"""The tall-data benchmark: samplers of five libraries and fitted approximations, at equal time.

Risk of posterior means, variances and tail probabilities in units of the posterior, averaged over coordinates. Gold
standards are long exact chains, which a second exact kernel and Stein's identities must confirm. A cell is one chain on
one core; its time includes warm-up, modes, expansions and the trials of a choice, but no compilation. All chains of a
block start at one draw of the Laplace approximation, except those of `default` and `default_bias_10`, for which
`sample` chooses the start, too. A sampler that cannot sample a posterior, or whose library is not installed, gives a
failed cell with the reason.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import approxmcmc as amc
from approxmcmc import whole_chains
from approxmcmc.datasets import TALL_DATA, synthetic_logistic, tall_target
from approxmcmc.numerics import Laplace
from approxmcmc.reference import ChainGates
from approxmcmc.study import Budget, Gold, Study, standard_estimands
from approxmcmc.study.measures import ALL_STANDARD
from studies.tools import tall_models
from studies.tools.gold import long_exact_chain, precise_exact_chain
from studies.tools.in_laplace_metric import InLaplaceMetric, control_variate, influential_rows, start
from studies.tools.on_the_clock import InScale, OnTheClock, OurChoice
from studies.tools.tall_references import SEED
from studies.tools.tall_samplers import (
    bernstein,
    firefly,
    mala,
    minibatch_barker,
    mixture,
    sghmc,
    sgld,
    surrogate,
    t_test,
)

DENSE_COLUMNS = 20


def dense(n: int) -> amc.targets.LogisticRegression:
    """Return a logistic regression on n rows of independent normal columns."""
    return amc.targets.LogisticRegression(*synthetic_logistic(n, DENSE_COLUMNS, seed=0))


# --- the posteriors ---

PROBLEMS = {
    **{name: functools.partial(tall_target, name) for name in TALL_DATA if name != "kdd99_one_hot"},
    **{f"logistic_1e{k}": functools.partial(dense, 10**k) for k in (4, 5, 6)},
    "poisson": functools.partial(tall_models.poisson, 100_000),
    "student_t": functools.partial(tall_models.student_t, 100_000),
    "softmax": functools.partial(tall_models.softmax, 50_000),
    "negative_binomial": functools.partial(tall_models.negative_binomial, 100_000),
    "hierarchy": functools.partial(tall_models.hierarchy, 100_000),
    "customer_lifetimes": functools.partial(tall_models.customer_lifetimes, 100_000),
}

# --- the samplers, by family and name ---


def blackjax_sgld(fit: Laplace) -> whole_chains.ChainSampler:
    """Return SGLD of blackjax with a tenth of the largest stable step, 2 sd^2 of the narrowest coordinate."""
    return whole_chains.BlackjaxSGLD(step_size=0.2 * float(fit.sd.min()) ** 2)


EXACT = "ours, exact"
BIASED = "ours, biased"
CHOICE = "ours, chosen by `sample`"
NUTS = "NUTS and kin, other libraries"
STOCHASTIC = "stochastic gradients, other libraries"
FITTED = "a fitted law"
CATALOGUE: dict[str, dict[str, Any]] = {
    EXACT: {
        "mala": OnTheClock(InLaplaceMetric(mala), tune=100),
        "core_exact": OnTheClock(
            InLaplaceMetric(surrogate(amc.acceptance.CheapestExactTest()), influential_rows), thin=10
        ),
        "firefly": OnTheClock(InLaplaceMetric(firefly), thin=10),
    },
    CHOICE: {"default": OurChoice(thin=10), "default_bias_10": OurChoice(max_bias=0.1, thin=10)},
    BIASED: {
        "t_test": OnTheClock(InLaplaceMetric(t_test), thin=10),
        "bernstein": OnTheClock(InLaplaceMetric(bernstein), thin=10),
        "minibatch_barker": OnTheClock(InLaplaceMetric(minibatch_barker), thin=10),
        "control_variates": OnTheClock(InLaplaceMetric(mixture, control_variate), thin=50),
        "sgld": OnTheClock(InLaplaceMetric(sgld), thin=10),
        "sghmc": OnTheClock(InLaplaceMetric(sghmc, influential_rows), thin=10),
    },
    NUTS: {
        "nutpie": amc.NUTS(backend="nutpie"),
        "pymc_nuts": amc.NUTS(tune=500, backend="pymc"),
        "nutpie_short": amc.NUTS(tune=100, backend="nutpie"),  # a longer warm-up would take all of the few seconds
        "pymc_nuts_short": amc.NUTS(tune=100, backend="pymc"),
        "numpyro_nuts": whole_chains.NumPyroNUTS(),
        "blackjax_nuts": whole_chains.BlackjaxNUTS(),
        "blackjax_mclmc": whole_chains.BlackjaxMCLMC(),
    },
    STOCHASTIC: {"blackjax_sgld": InScale(blackjax_sgld), "numpyro_hmcecs": whole_chains.NumPyroHMCECS()},
    FITTED: {
        "laplace": whole_chains.LaplaceApproximation(),
        "pymc_advi": whole_chains.PyMCADVI(),
        "numpyro_advi": whole_chains.NumPyroADVI(),
        "blackjax_pathfinder": whole_chains.BlackjaxPathfinder(),
    },
}
SAMPLERS = {name: sampler for members in CATALOGUE.values() for name, sampler in members.items()}
KINDS = {name: family for family, members in CATALOGUE.items() for name in members}

# --- gold standards ---


QUICK_GATES = ChainGates(max_second_r_hat=1.2, min_second_ess=50)  # MALA on rare categories mixes slowly
GOLD = Gold(chains=4, draws=10_000, tune=1000, by=long_exact_chain)
PRECISE_GOLD = dataclasses.replace(GOLD, draws=30_000, by=precise_exact_chain)

MAIN = (
    "mala core_exact default t_test control_variates sgld nutpie nutpie_short pymc_nuts pymc_nuts_short blackjax_sgld "
    "laplace pymc_advi"
)


FIVE = ("mnist_7v9", "covertype", "logistic_1e5", "logistic_1e6", "student_t")


def chosen(names: str) -> dict[str, Any]:
    """Return the samplers with these names, which are separated by spaces, as a dict by name."""
    return {name: SAMPLERS[name] for name in names.split()}


study = Study(
    name="tall_data",
    reference="The frozen suite of this library: posteriors of 1e4 to 1e6 rows, real and simulated",
    names={
        "core_exact": "influential rows (exact)",
        "laplace": "Laplace",
        "mala": "MALA",
        "mnist_7v9": "MNIST 7 and 9",
        "nutpie_short": "nutpie (short warm-up)",
        "sgld": "SGLD",
        "student_t": "Student's t",
        "t_test": "t-test",
    },
    targets=PROBLEMS,
    samplers=SAMPLERS,
    budget=Budget(seconds=100.0),
    estimands=standard_estimands,
    average_over=ALL_STANDARD,
    replicates=8,
    gold=GOLD,
    seed=SEED,
    start=start,
    kinds=KINDS,
    presets={
        "smoke": {
            "targets": {
                "mnist_7v9": functools.partial(tall_target, "mnist_7v9", "synthetic"),
                "logistic": functools.partial(dense, 1000),
            },
            "samplers": chosen("mala default laplace"),
            "budget": Budget(draws=200),
            "replicates": 2,
            "gold": dataclasses.replace(GOLD, draws=300, tune=100, gates=ChainGates(1.2, 50, 1.3, 20)),
        },
        "quick": {
            "targets": {name: PROBLEMS[name] for name in ("mnist_7v9", "covertype", "logistic_1e5")},
            "samplers": chosen(MAIN.replace("sgld ", "", 1)),
            "budget": Budget(seconds=10.0),
            "replicates": 3,
            "gold": dataclasses.replace(GOLD, draws=3000, tune=500, gates=QUICK_GATES),
        },
        # Sets on which each of these samplers has draws within a few seconds. `tall_logistic` and `tall_covertype` are
        # further sets.
        "published": {
            "targets": {name: PROBLEMS[name] for name in ("mnist_7v9", "ijcnn1", "student_t")},
            "samplers": chosen("mala core_exact default t_test sgld nutpie_short laplace"),
            "budget": Budget(seconds=10.0),
            "replicates": 5,
            "gold": PRECISE_GOLD,
        },
        # Nine hours of one core: risks after 1, 10 and 100 s lie on one curve.
        "five_sets": {
            "like": "published",
            "targets": {name: PROBLEMS[name] for name in FIVE},
            "samplers": chosen(MAIN),
            "budget": Budget(seconds=100.0),
        },
        # Fourteen hours of one core: long enough for NUTS with its longer warm-up (nutpie 400 steps, PyMC 500).
        "thousand_seconds": {
            "like": "published",
            "targets": {name: PROBLEMS[name] for name in ("covertype", "logistic_1e6")},
            "samplers": chosen("mala core_exact default nutpie pymc_nuts"),
            "budget": Budget(seconds=1000.0),
        },
    },
)


def of_one_set(
    name: str, reference: str, target: str, samplers: str, seconds: float, names: Mapping[str, str]
) -> Study:
    """Return a separate study of one posterior of the suite, because its chains take a core for minutes."""
    return dataclasses.replace(
        study,
        name=name,
        reference=reference,
        names=names,
        targets={target: PROBLEMS[target]},
        samplers=chosen(MAIN),
        presets={
            "smoke": study.presets["smoke"] | {"targets": {"logistic": functools.partial(dense, 1000)}},
            "published": {
                "samplers": chosen(samplers),
                "budget": Budget(seconds=seconds),
                "replicates": 5,
                "gold": PRECISE_GOLD,
            },
        },
    )
