"""The report of a study: one page that opens offline, with an interval to every estimate and no failure left out.

``pieces`` are what a study's own analyses return; ``evidence`` holds the numbers; ``tables``, ``figures``, ``answer``
and ``trust`` turn them into pieces; ``content`` puts them in order; ``page`` writes them.
"""

from approxmcmc.study.report.page import write_report
from approxmcmc.study.report.pieces import Figure, Note, Section, Table

__all__ = ["Figure", "Note", "Section", "Table", "write_report"]
