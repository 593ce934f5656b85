"""Studies: declared grids of chains, resumable, run on one machine or on a cluster, with a report at the end.

``declare`` holds the fields that an author sets, ``budget``, ``knobs`` and ``measures`` their parts; ``plan`` turns
them into cells with keys and seeds; ``store`` keeps finished cells; ``results`` reads them back; ``engines`` compute
cells, one after another or on Dask; ``run`` computes the missing ones through one of them; ``report`` writes the page.
Each imports only from those before it, except that ``results`` makes the report when asked. ``study`` is the ``Study``
of authors and notebooks, with the methods `plan`, `run` and `results`; ``published`` reads results that ship with the
package.
"""

from approxmcmc.diagnostics.standard import standard_estimands
from approxmcmc.study.budget import Budget
from approxmcmc.study.declare import Bias, Gold
from approxmcmc.study.knobs import Knob, Setting, Vary, knob, vary
from approxmcmc.study.measures import PaperValue
from approxmcmc.study.published import load_results
from approxmcmc.study.study import Study

__all__ = [
    "Bias",
    "Budget",
    "Gold",
    "Knob",
    "PaperValue",
    "Setting",
    "Study",
    "Vary",
    "knob",
    "load_results",
    "standard_estimands",
    "vary",
]
