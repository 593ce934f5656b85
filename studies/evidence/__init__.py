"""Every number that the documentation shows, drawn by one version of the code, one process at a time.

``python -m studies.evidence --list`` names the pieces with their minutes and their state, ``--stale`` draws those that
are older than the code that draws them, a list of names draws these, and without options all are drawn. A run that was
interrupted goes on where it stopped. ``python3 -m nox -s evidence -- OPTIONS`` builds the environment first.
"""
