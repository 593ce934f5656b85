"""The samplers of `tall_data` on Covertype: rare categories have nearly all of the variance of the terms."""

from studies.tall_data import of_one_set

study = of_one_set(
    "tall_covertype",
    "One posterior of the frozen suite of this library: cover types of forest cells, with rare categories",
    target="covertype",
    names={
        "control_variates": "control variates",
        "core_exact": "influential rows (exact)",
        "covertype": "Covertype",
        "laplace": "Laplace",
        "mala": "MALA",
        "nutpie_short": "nutpie (short warm-up)",
    },
    samplers="mala core_exact default control_variates nutpie_short laplace",
    seconds=15.0,
)
