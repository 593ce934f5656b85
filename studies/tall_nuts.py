"""NUTS with its usual warm-up against steps on influential rows, and two fitted approximations, on five posteriors.

The picture has, for each posterior and after 1, 10 and 100 seconds, the risk of NUTS over that of steps on influential
rows. Chains on Covertype run ten times as long, because the warm-up of NUTS takes hundreds of seconds there.
"""

import dataclasses

import approxmcmc as amc
from approxmcmc import whole_chains
from approxmcmc.study import Budget
from studies.tall_data import PRECISE_GOLD, PROBLEMS, study as tall_data
from studies.tools.against_nuts import against_nuts
from studies.tools.in_laplace_metric import InLaplaceMetric, influential_rows
from studies.tools.on_the_clock import OnTheClock
from studies.tools.tall_samplers import surrogate

SETS = ("mnist_7v9", "ijcnn1", "logistic_1e5", "student_t", "covertype")
INFLUENTIAL = InLaplaceMetric(surrogate(amc.acceptance.CheapestExactTest()), influential_rows)
SAMPLERS = {
    "nutpie": amc.NUTS(backend="nutpie"),
    "core_exact_10": OnTheClock(INFLUENTIAL, thin=10),
    "core_exact": OnTheClock(INFLUENTIAL, thin=100),  # short steps: every tenth draw of 100 s would not fit into memory
    "laplace": whole_chains.LaplaceApproximation(),
    "pymc_advi": whole_chains.PyMCADVI(),
    "pymc_nuts": amc.NUTS(tune=500, backend="pymc"),
}

study = dataclasses.replace(
    tall_data,
    name="tall_nuts",
    reference="Five posteriors of the frozen suite of this library, real and simulated",
    names={
        "core_exact": "influential rows (exact)",
        "core_exact_10": "influential rows (exact, every tenth step)",
        "covertype": "Covertype",
        "laplace": "Laplace",
        "logistic_1e5": "simulated logistic",
        "mnist_7v9": "MNIST 7 and 9",
        "pymc_advi": "ADVI of PyMC",
        "pymc_nuts": "NUTS of PyMC",
        "student_t": "Student's t",
    },
    targets={name: PROBLEMS[name] for name in SETS},
    samplers=SAMPLERS,
    budget=Budget(seconds=100.0),
    budgets={"covertype": Budget(seconds=1000.0)},
    replicates=5,
    gold=PRECISE_GOLD,
    kinds={},
    analyses=(against_nuts,),
    presets={
        "smoke": tall_data.presets["smoke"]
        | {"samplers": {name: SAMPLERS[name] for name in ("nutpie", "core_exact")}, "budgets": {}},
        "published": {},
    },
)
