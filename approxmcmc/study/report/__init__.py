"""The report of a study: one page that opens offline, with an interval for every estimate and every failure listed.

``pieces`` are the output of a study's own analyses; ``evidence`` holds the numbers; ``tables``, ``figures``, ``answer``
and ``page_warnings`` turn them into pieces; ``content`` orders them; ``page`` writes them.
"""

from approxmcmc.study.report.content import write_report
from approxmcmc.study.report.pieces import Figure, Note, Section, Table

__all__ = ["Figure", "Note", "Section", "Table", "write_report"]
