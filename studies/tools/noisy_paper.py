"""Tables 1 and 2 of Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo: (mean, sd) of every parameter."""

from collections.abc import Mapping, Sequence

from approxmcmc.study import PaperValue

EXCHANGE = "exchange[start='observed', n_updates=1000]"
# By label of the setting. Edges, 2-stars.
TABLE_1 = {
    "bergm": ((-2.675, 0.647), (0.188, 0.155)),
    EXCHANGE: ((-2.573, 0.568), (0.146, 0.133)),
    "noisy_exchange": ((-2.686, 0.526), (0.167, 0.122)),
    "noisy_langevin[step_size=1.5]": ((-2.281, 0.513), (0.081, 0.119)),
    "mala_exchange": ((-2.518, 0.620), (0.136, 0.128)),
    "noisy_mala": ((-2.584, 0.498), (0.144, 0.113)),
}
# Edges, 2-stars, 3-stars, triangles.
TABLE_2 = {
    "bergm": ((2.647, 2.754), (-1.069, 0.953), (-0.021, 0.483), (1.787, 0.646)),
    "exchange": ((1.889, 2.142), (-0.797, 0.744), (-0.138, 0.385), (1.593, 0.519)),
    "noisy_exchange": ((1.927, 2.444), (-0.757, 0.823), (-0.176, 0.422), (1.543, 0.530)),
    "noisy_langevin[step_size=1.1]": ((1.679, 3.650), (-0.509, 1.429), (-0.466, 0.787), (1.633, 0.573)),
    "mala_exchange": ((2.391, 2.095), (-0.938, 0.795), (-0.113, 0.451), (1.454, 0.598)),
    "noisy_mala": ((2.731, 2.749), (-1.054, 0.886), (-0.041, 0.417), (1.519, 0.492)),
}
# Means that differ by less than a tenth of the printed standard deviation, and standard deviations that differ by less
# than a tenth, count as equal: the limits of a run that is right, in `studies.tools.verdict`.
MARGIN = 0.1
HOURS = {"table 1": "two", "table 2": "four"}


def table_of_moments(
    rows: Mapping[str, Sequence[tuple[float, float]]], names: Sequence[str], printed: str
) -> dict[str, PaperValue]:
    """Return the values of one of the tables."""
    return {
        f"{label}: {kind} of {name}": PaperValue(
            value,
            "log odds",
            printed,
            measure=f"{kind} of {name}",
            setting=label,
            differs=_differs(label, printed),
            margin=MARGIN * pair[1],
        )
        for label, moments in rows.items()
        for name, pair in zip(names, moments, strict=True)
        for kind, value in zip(("mean", "sd"), pair, strict=True)
    }


def _differs(label: str, printed: str) -> str:
    if label == "bergm":
        return f"{HOURS[printed]} hours of CPU in the paper, the budget of the other settings here"
    if label.startswith("noisy_langevin"):
        return "step tuned as for MALA; the paper does not state its size"
    return ""
