"""Numbers of steps in the legends of figures 3 to 8 of Korattikara, Chen and Welling (2013), the preprint.

T is the number of samples that a setting collected: in 400 s (figures 3 and 4), within the axis of 800 s (figures 5 and
6, the same in both), in 1000 s (figure 8). The numbers depend on the paper's machine and code, so that only their
ratios can be compared.
"""

from approxmcmc.study import PaperValue
from studies.tools.published import steps_made

RANDOM_WALK = {0.0: 75_484, 0.01: 133_069, 0.05: 200_672, 0.1: 257_897, 0.2: 422_978}
CORRECTED_SGLD: dict[str | float, int] = {"SGLD": 671_400, 0.1: 118_360, 0.05: 53_480, 0.01: 28_560, "MH": 2_600}
GIBBS: dict[str | float, int] = {
    "Gibbs": 2_897,
    0.01: 3_429,
    0.05: 3_979,
    0.1: 4_494,
    0.15: 4_889,
    0.2: 5_507,
    0.25: 5_959,
}
DIFFERS = "a ratio of speeds: in the paper's code the parts of a step have other costs"


def figure_3() -> dict[str, PaperValue]:
    """Return the legend of figure 3, with which the numbers printed in figure 4 agree."""
    counts = {f"rows[epsilon={epsilon!r}]": steps for epsilon, steps in RANDOM_WALK.items()}
    return steps_made(counts, 400.0, "figure 3", "rows[epsilon=0.0]", DIFFERS)


def figures_5_and_6(step_sizes: tuple[float, float]) -> dict[str, PaperValue]:
    """Return the legends of figure 5, at the first step size, and figure 6, at the second."""
    values: dict[str, PaperValue] = {}
    for figure, step in zip(("figure 5", "figure 6"), step_sizes, strict=True):
        ends: dict[str | float, str] = {"SGLD": f"sgld[step_size={step!r}]", "MH": f"exact[step_size={step!r}]"}
        counts = {
            ends.get(name) or f"corrected[step_size={step!r}, epsilon={name!r}]": steps
            for name, steps in CORRECTED_SGLD.items()
        }
        values |= steps_made(counts, 800.0, figure, ends["MH"], DIFFERS)
    return values


def figure_8() -> dict[str, PaperValue]:
    """Return the legend of figure 8; the paper's Gibbs adds up all pairs."""
    counts = {
        "all_pairs" if name == "Gibbs" else f"sequential[epsilon={name!r}]": steps for name, steps in GIBBS.items()
    }
    return steps_made(counts, 1000.0, "figure 8", "all_pairs", DIFFERS)
