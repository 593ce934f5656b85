"""Numbers that the sources print, read a second time: the studies' constants against the lines that were copied here.

The lines are those of the text of the sources. Where it lies in ``shared/sources`` beside the checkout, each line
is also looked up there.
"""

import re
from pathlib import Path

import pytest

from studies.tools.austerity_paper import CORRECTED_SGLD, GIBBS, RANDOM_WALK
from studies.tools.noisy_paper import EXCHANGE, TABLE_1, TABLE_2

SOURCES = Path(__file__).parents[3] / "shared" / "sources"
NOISY = "002_47715356b9c03b8b.txt"
AUSTERITY = "000_8abd26266934358a.txt"

TABLE_1_LINES = """\
BERGM | -2.675 | 0.647 | 0.188 | 0.155 |
Exchange | -2.573 | 0.568 | 0.146 | 0.133 |
Noisy Exchange | -2.686 | 0.526 | 0.167 | 0.122 |
Noisy Langevin | -2.281 | 0.513 | 0.081 | 0.119 |
MALA Exchange | -2.518 | 0.62 | 0.136 | 0.128 |
Noisy MALA | -2.584 | 0.498 | 0.144 | 0.113 |
"""
TABLE_2_LINES = """\
BERGM | 2.647 | 2.754 | -1.069 | 0.953 | -0.021 | 0.483 | 1.787 | 0.646 |
Exchange | 1.889 | 2.142 | -0.797 | 0.744 | -0.138 | 0.385 | 1.593 | 0.519 |
Noisy Exch | 1.927 | 2.444 | -0.757 | 0.823 | -0.176 | 0.422 | 1.543 | 0.53 |
Noisy Lang | 1.679 | 3.65 | -0.509 | 1.429 | -0.466 | 0.787 | 1.633 | 0.573 |
MALA Exch | 2.391 | 2.095 | -0.938 | 0.795 | -0.113 | 0.451 | 1.454 | 0.598 |
Noisy MALA Exch | 2.731 | 2.749 | -1.054 | 0.886 | -0.041 | 0.417 | 1.519 | 0.492 |
"""
LABELS_1 = ("bergm", EXCHANGE, "noisy_exchange", "noisy_langevin[step_size=1.5]", "mala_exchange", "noisy_mala")
LABELS_2 = ("bergm", "exchange", "noisy_exchange", "noisy_langevin[step_size=1.1]", "mala_exchange", "noisy_mala")
# Legends: epsilon = number of steps. The text of figures 5, 6 and 8 has the numbers in the order of the legend.
FIGURE_3 = "=0.00 T = 75484 =0.01 T =133069 =0.05 T = 200672 =0.10 T = 257897 =0.20 T = 422978"
FIGURE_5 = "T = 671400 T= 118360 T = 53480 T = 28560 T = 2600"
FIGURE_8 = "T = 3429 T = 3979 T = 4494 T = 4889 T = 5507 T = 5959 Gibbs, T = 2897"


def rows_of(lines):
    """Return the numbers of each line of a table, in pairs."""
    for line in lines.splitlines():
        numbers = [float(cell) for cell in line.split("|")[1:-1]]
        yield tuple(zip(numbers[::2], numbers[1::2], strict=True))


@pytest.mark.parametrize(
    ("lines", "labels", "table"), [(TABLE_1_LINES, LABELS_1, TABLE_1), (TABLE_2_LINES, LABELS_2, TABLE_2)]
)
def test_the_tables_of_noisy_monte_carlo(lines, labels, table):
    assert dict(zip(labels, rows_of(lines), strict=True)) == table


def test_the_legends_of_austerity():
    legend = re.findall(r"=\s*([\d.]+) T =\s*(\d+)", FIGURE_3)
    assert {float(epsilon): int(steps) for epsilon, steps in legend} == RANDOM_WALK
    assert [int(steps) for steps in re.findall(r"T\s*= (\d+)", FIGURE_5)] == list(CORRECTED_SGLD.values())
    *sequential, all_pairs = [int(steps) for steps in re.findall(r"T = (\d+)", FIGURE_8)]
    assert {name: GIBBS[name] for name in GIBBS if name != "Gibbs"} == dict(
        zip((0.01, 0.05, 0.1, 0.15, 0.2, 0.25), sequential, strict=True)
    )
    assert GIBBS["Gibbs"] == all_pairs


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the text of the sources is not beside this checkout")
def test_the_lines_are_those_of_the_sources():
    noisy = (SOURCES / NOISY).read_text()
    for line in (*TABLE_1_LINES.splitlines(), *TABLE_2_LINES.splitlines()):
        assert line in noisy, line
    words = re.sub(r"\s+", "", (SOURCES / AUSTERITY).read_text())
    for legend in (FIGURE_3, FIGURE_5, FIGURE_8):
        for steps in re.findall(r"T\s*=\s*\d+", legend):
            assert re.search(re.sub(r"\s+", "", steps), words), steps
