"""Machine time of the published studies: chains, and processor seconds of all of them."""

from approxmcmc.study.published import published_studies, read_published

SECONDS = "Seconds per cell"
CELLS = "cells"
WHOLE = ("whole cell, CPU", "whole cell, wall")  # the second where the cells have no record of the first


def machine_time(name: str) -> tuple[int, float]:
    """Return the chains of a published study, and their processor seconds: chains of a setting times their median.

    Compilation and warm-up are included; gold standards, fitted approximations of the page and drawing are not.

    Examples
    --------
    >>> chains, seconds = machine_time("tall_data")
    >>> chains > 0 and seconds > 0.0
    True
    """
    _, table = read_published(name)
    rows = table[table.piece.str.startswith(SECONDS)]
    chains, cpu, wall = (rows[name].replace("", None).astype(float) for name in (CELLS, *WHOLE))
    return int(chains.sum()), float((chains * cpu.fillna(wall)).sum())


def machine_time_block() -> str:
    """Return a Markdown table of all published studies, longest first, with their sum."""
    by_study = sorted(((name, *machine_time(name)) for name in published_studies()), key=lambda row: -row[2])
    rows = [*by_study, ("all", sum(row[1] for row in by_study), sum(row[2] for row in by_study))]
    lines = [f"| {name} | {chains:,} | {seconds / 60:,.1f} |" for name, chains, seconds in rows]
    return "\n".join(["| study | chains | minutes of one core |", "|---|---|---|", *lines, ""])
