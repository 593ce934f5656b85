"""The samplers of `tall_data` on a simulated logistic regression of a hundred thousand rows and twenty coefficients.

It is a separate study, so that it can be run without the suite: its chains take a core for minutes, the suite takes
hours.
"""

import dataclasses
import functools

from approxmcmc.study import Budget
from studies import tall_data

study = dataclasses.replace(
    tall_data.study,
    name="tall_logistic",
    reference="One posterior of the frozen suite of this library, ten times as tall as its smallest",
    targets={"logistic_1e5": tall_data.PROBLEMS["logistic_1e5"]},
    samplers=tall_data.chosen(tall_data.MAIN),
    presets={
        "smoke": tall_data.study.presets["smoke"] | {"targets": {"logistic": functools.partial(tall_data.dense, 1000)}},
        "published": {
            "samplers": tall_data.chosen("mala core_exact nutpie_short laplace"),
            "budget": Budget(seconds=10.0),
            "replicates": 5,
            "gold": dataclasses.replace(tall_data.GOLD, draws=30_000),
        },
    },
)
