"""Quality gates: requirements that NUTS draws must meet before they serve as a reference."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import arviz_stats as az
import numpy as np
import xarray as xr

from approxmcmc.contracts.arguments import check_settings, naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.reference.summary import Estimands, Summary, summarize_all

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Gates:
    """Limits for a gold standard, each applied to its worst coordinate or chain.

    Parameters
    ----------
    max_r_hat
        Largest rank-normalised split R-hat of any estimand and any variable.
    divergences
        Largest number of divergent transitions in all chains together.
    min_bulk_ess, min_tail_ess
        Smallest effective sample sizes of an estimand, all chains together.
    min_bfmi
        Smallest energy Bayesian fraction of missing information (E-BFMI) of a chain.
    max_relative_mcse
        Largest Monte Carlo standard error of an estimand's mean, in units of its posterior sd.

    Raises
    ------
    InvalidInputError
        If a limit is negative or not a number, or R-hat's is below 1, which no draws can satisfy.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021) for R-hat and ESS; Betancourt (2016) for E-BFMI; posteriordb
    (Magnusson et al., 2024) for gates on reference draws.

    Examples
    --------
    >>> Gates(min_bulk_ess=400, min_tail_ess=400, max_relative_mcse=0.05).max_r_hat
    1.01
    """

    max_r_hat: float = 1.01
    divergences: int = 0
    min_bulk_ess: float = 10_000
    min_tail_ess: float = 2_000
    min_bfmi: float = 0.3
    max_relative_mcse: float = 0.01

    def __post_init__(self) -> None:
        """Check that every limit is a valid number."""
        for name, value in dataclasses.asdict(self).items():
            lowest = 1.0 if name == "max_r_hat" else 0.0
            if not (isinstance(value, (int, float, np.number)) and value >= lowest):
                raise InvalidInputError(f"Gates: {name} must be at least {lowest:g}, found {value!r}.")
        check_settings(self)


DEFAULT_GATES = Gates()


@dataclasses.dataclass(frozen=True)
class GateResult:
    """The result of one gate: its worst value, the coordinate or chain where it was found, the limit as a condition."""

    gate: str
    value: float
    where: str
    limit: str
    passed: bool

    def __str__(self) -> str:
        return f"{self.gate} = {self.value:.6g} at {self.where}, needs {self.limit}"


@dataclasses.dataclass(frozen=True)
class GateReport:
    """The results of all gates on one set of draws."""

    results: tuple[GateResult, ...]

    @property
    def passed(self) -> bool:
        """True if every gate passed."""
        return all(result.passed for result in self.results)

    @property
    def failures(self) -> tuple[GateResult, ...]:
        """The results of the gates that failed."""
        return tuple(result for result in self.results if not result.passed)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per gate, with columns value, where, limit and passed."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(result) for result in self.results]).set_index("gate")

    def to_json(self) -> str:
        """Return the results as JSON text; a value that is not finite becomes null."""
        rows = [dataclasses.asdict(result) for result in self.results]
        return json.dumps([row | {"value": row["value"] if np.isfinite(row["value"]) else None} for row in rows])

    @staticmethod
    def from_json(text: str) -> "GateReport":
        """Rebuild a report from :meth:`to_json`; null becomes NaN."""
        rows = [row | {"value": np.nan if row["value"] is None else row["value"]} for row in json.loads(text)]
        return GateReport(tuple(GateResult(**row) for row in rows))

    def __str__(self) -> str:
        return "\n".join(f"[{'pass' if result.passed else 'FAIL'}] {result}" for result in self.results)


@naming_the_arguments
def check_gates(trace: xr.DataTree, gates: Gates = DEFAULT_GATES, estimands: Estimands | None = None) -> GateReport:
    """Check a trace against the gates.

    Parameters
    ----------
    trace
        Draws of NUTS with groups ``posterior`` and ``sample_stats``, with the names of PyMC or of nutpie.
    gates
        The limits.
    estimands
        Functions of the posterior Dataset that return (chain, draw, ...) arrays, by name; None = every coordinate of
        every variable. ESS and MCSE are checked for the estimands; R-hat also for all variables, except coordinates
        that have the same value in all draws (such as a diagonal of ones).

    Returns
    -------
    GateReport
        One result per gate. A value that is missing or NaN fails, for example because a chain never moved or the
        energy was not recorded.

    Raises
    ------
    InvalidInputError
        If an estimand does not return one value, or one array, per chain and draw.

    Notes
    -----
    The gates detect chains that disagree or move slowly. They cannot detect a mode that no chain found.

    Examples
    --------
    >>> report = check_gates(trace, Gates(min_bulk_ess=400))  # doctest: +SKIP
    >>> report.to_frame()  # doctest: +SKIP
    """
    posterior = trace["posterior"].to_dataset()
    variables = summarize_all(posterior, None)
    return judge(trace, gates, variables, None if estimands is None else summarize_all(posterior, estimands))


def judge(
    trace: xr.DataTree,
    gates: Gates,
    variables: Mapping[str, Summary],
    estimands: Mapping[str, Summary] | None,
) -> GateReport:
    """Return the report of `check_gates` from the summaries of `variables` and, unless None, of `estimands`."""
    stats = trace["sample_stats"].to_dataset() if "sample_stats" in trace.children else xr.Dataset()
    measured = list((variables if estimands is None else estimands).values())
    r_hat = pool(measured, "r_hat")
    if estimands is not None:
        moving = np.concatenate([summary.sd != 0.0 for summary in variables.values()])
        others = pool(variables.values(), "r_hat")
        r_hat += [pair for pair, moves in zip(others, moving, strict=True) if moves]
    return GateReport(
        (
            at_most("r_hat", r_hat, gates.max_r_hat),
            _divergences(stats, gates.divergences),
            at_least("bulk_ess", pool(measured, "ess_bulk"), gates.min_bulk_ess),
            at_least("tail_ess", pool(measured, "ess_tail"), gates.min_tail_ess),
            _bfmi(stats, gates.min_bfmi),
            at_most("relative_mcse", pool(measured, "relative_mcse"), gates.max_relative_mcse),
        )
    )


def pool(summaries: Iterable[Summary], statistic: str) -> list[tuple[float, str]]:
    """Return pairs (value, label) of one statistic, such as "r_hat", for every coordinate of all summaries."""
    return [
        (float(value), label)
        for summary in summaries
        for value, label in zip(getattr(summary, statistic), summary.labels, strict=True)
    ]


def at_most(gate: str, pairs: list[tuple[float, str]], limit: float) -> GateResult:
    """Return the result of `gate`, passed if no value of the (value, label) pairs exceeds `limit`; a NaN fails."""
    value, where = max(pairs, key=lambda pair: np.inf if np.isnan(pair[0]) else pair[0])
    return GateResult(gate, value, where, f"<= {limit:g}", passed=bool(value <= limit))


def at_least(gate: str, pairs: list[tuple[float, str]], limit: float) -> GateResult:
    """Return the result of `gate`, passed if no value of the (value, label) pairs is below `limit`; a NaN fails."""
    value, where = min(pairs, key=lambda pair: -np.inf if np.isnan(pair[0]) else pair[0])
    return GateResult(gate, value, where, f">= {limit:g}", passed=bool(value >= limit))


def _read(stats: xr.Dataset, name: str) -> np.ndarray | None:
    return stats[name].transpose("chain", "draw").to_numpy() if name in stats else None


def _divergences(stats: xr.Dataset, limit: int) -> GateResult:
    diverging = _read(stats, "diverging")
    if diverging is None:
        return GateResult("divergences", np.nan, "sample_stats (not recorded)", f"<= {limit}", passed=False)
    per_chain = diverging.sum(axis=1)
    total = int(per_chain.sum())
    where = f"chain {per_chain.argmax()}" if total else "any chain"
    return GateResult("divergences", total, where, f"<= {limit}", passed=total <= limit)


def _bfmi(stats: xr.Dataset, limit: float) -> GateResult:
    energy = _read(stats, "energy")
    if energy is None:
        return GateResult("bfmi", np.nan, "sample_stats (energy not recorded)", f">= {limit:g}", passed=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_chain = az.bfmi(energy)
    return at_least("bfmi", [(float(value), f"chain {chain}") for chain, value in enumerate(per_chain)], limit)
