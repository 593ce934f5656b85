"""Union membership of 545 men over eight years, shipped with the package: many groups of few rows."""

from importlib.resources import files
from typing import Any


def union_members() -> Any:
    """Return union membership of young men: 545 men, one row for each year from 1980 to 1987.

    Columns: ``nr`` (number of the man), ``year``, ``union`` (1 if a union contract set his wage), ``educ`` (years of
    schooling), ``exper`` (years of experience), ``married``, ``black``, ``hisp`` (0 or 1). 55 % of the men are in a
    union in all years or in none.

    Returns
    -------
    pandas.DataFrame
        4360 rows, sorted by man and year. Its ``attrs`` have the provenance.

    Notes
    -----
    From the National Longitudinal Survey of Youth of the Bureau of Labor Statistics, as selected by Vella and Verbeek
    (1998), "Whose wages do unions raise?", Journal of Applied Econometrics 13, 163-183. The columns are those of
    ``wage_panel.csv.bz2`` in linearmodels (commit 2ce5503), Copyright (c) 2017 Kevin Sheppard, NCSA licence; the
    licence is in the same folder, in ``union_members.txt``.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> men = amc.datasets.union_members()
    >>> len(men), men["nr"].nunique(), round(float(men["union"].mean()), 3)
    (4360, 545, 0.244)
    """
    import pandas as pd

    with files(__package__).joinpath("union_members.csv.gz").open("rb") as file:
        table = pd.read_csv(file, compression="gzip")
    table.attrs["provenance"] = "Vella and Verbeek (1998), from linearmodels at commit 2ce5503 (NCSA licence)"
    return table
