"""The samplers of `tall_data` on Covertype: real data, of which a few rows in rare categories decide nearly all."""

from studies.tall_data import of_one_set

study = of_one_set(
    "tall_covertype",
    "One posterior of the frozen suite of this library: cover types of forest cells, with rare categories",
    target="covertype",
    samplers="mala core_exact default control_variates nutpie_short pymc_advi laplace",
    seconds=30.0,
)
