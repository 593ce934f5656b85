"""The samplers of `tall_data` on a simulated logistic regression of a hundred thousand rows and twenty coefficients."""

from studies.tall_data import of_one_set

study = of_one_set(
    "tall_logistic",
    "One posterior of the frozen suite of this library, ten times as tall as its smallest",
    target="logistic_1e5",
    names={
        "core_exact": "influential rows (exact)",
        "laplace": "Laplace",
        "logistic_1e5": "simulated logistic",
        "mala": "MALA",
        "nutpie_short": "nutpie (short warm-up)",
    },
    samplers="mala core_exact nutpie_short laplace",
    seconds=10.0,
)
