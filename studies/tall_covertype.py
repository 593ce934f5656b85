"""The samplers of `tall_data` on Covertype: real data, where a few rows of rare categories have most of the variance of terms."""

from studies.tall_data import of_one_set

study = of_one_set(
    "tall_covertype",
    "One posterior of the frozen suite of this library: cover types of forest cells, with rare categories",
    target="covertype",
    samplers="mala core_exact default control_variates nutpie_short laplace",
    seconds=15.0,
)
