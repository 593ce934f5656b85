"""Studies: declared grids of chains, resumable, run on one machine or on a cluster, that end in a report.

``declare`` holds what an author of a study writes; ``plan`` turns it into cells with keys and seeds; ``store`` keeps
what is done; ``run`` does what is missing, through one of the ``engines``; ``results`` reads it back; ``report`` writes
the page.
"""

from approxmcmc.study.declare import Budget, Gold, Study
from approxmcmc.study.knobs import Knob, Setting, Vary, knob, vary

__all__ = ["Budget", "Gold", "Knob", "Setting", "Study", "Vary", "knob", "vary"]
