"""Quality gates of a long exact chain, the gold standard if NUTS is too slow."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from scipy import stats

from approxmcmc.contracts.arguments import check_settings
from approxmcmc.errors import InvalidInputError
from approxmcmc.reference.gates import GateReport, GateResult, at_least, at_most, pool
from approxmcmc.reference.stein import Deviations
from approxmcmc.reference.summary import Estimands, Summary, estimand_values, summarize


@dataclasses.dataclass(frozen=True)
class ChainGates:
    """Limits for a long exact chain, each applied to its worst coordinate.

    Parameters
    ----------
    max_r_hat
        Largest rank-normalised split R-hat of any estimand and any variable.
    min_bulk_ess
        Smallest effective sample size of any estimand and any variable, all chains together.
    max_second_r_hat, min_second_ess
        The same limits for the second kernel's chains, because a chain that has not mixed confirms nothing.
    level
        Chance of a false alarm in each of three comparisons, over all coordinates together (Bonferroni): with the
        second kernel, and with each of Stein's identities.

    Raises
    ------
    InvalidInputError
        If a limit is out of range.

    Notes
    -----
    The second kernel must agree in the means and in the mean squared deviations, within the Monte Carlo errors of both
    chains; this detects errors above about 4.5 / sqrt(`min_second_ess`) posterior standard deviations. Stein's
    identities must hold within standard errors by batch means; with 2000 draws they detect a mean that is off by a
    tenth of a standard deviation (see `approxmcmc.reference.stein`). No gate detects a mode that no chain found.

    Examples
    --------
    >>> ChainGates(min_bulk_ess=400).max_r_hat
    1.01
    """

    max_r_hat: float = 1.01
    min_bulk_ess: float = 2_000
    max_second_r_hat: float = 1.05
    min_second_ess: float = 400
    level: float = 1e-3

    def __post_init__(self) -> None:
        """Check that every limit is a valid number."""
        ranges = {"max_r_hat": (1, np.inf), "max_second_r_hat": (1, np.inf), "level": (0, 1)}
        for name, value in dataclasses.asdict(self).items():
            low, high = ranges.get(name, (0, np.inf))
            if not (isinstance(value, (int, float, np.number)) and low <= value <= high):
                raise InvalidInputError(f"ChainGates: {name} must lie between {low:g} and {high:g}, found {value!r}.")
        check_settings(self)


Summaries = Mapping[str, Summary]


def judge_chains(
    main: xr.Dataset, second: xr.Dataset, deviations: Deviations, gates: ChainGates, estimands: Estimands | None = None
) -> tuple[GateReport, Summaries]:
    """Check long chains, the chains of a second kernel, and Stein's identities against the gates.

    `main` and `second` are the posterior groups of the two, `deviations` those of `main` from Stein's identities.
    Returns the report, and the summaries of the variables and estimands of `main`, by name.
    """
    values, other_values = (
        estimand_values(posterior, None) | (estimand_values(posterior, estimands) if estimands else {})
        for posterior in (main, second)
    )
    summaries, others = ({k: summarize(v.rename(k)) for k, v in draws.items()} for draws in (values, other_values))
    squares, other_squares = (_squared_deviations(draws, summaries) for draws in (values, other_values))
    report = GateReport(
        (
            at_most("r_hat", pool(summaries.values(), "r_hat"), gates.max_r_hat),
            at_least("bulk_ess", pool(summaries.values(), "ess_bulk"), gates.min_bulk_ess),
            at_most("second_r_hat", pool(others.values(), "r_hat"), gates.max_second_r_hat),
            at_least("second_bulk_ess", pool(others.values(), "ess_bulk"), gates.min_second_ess),
            _agreement([*summaries.values(), *squares], [*others.values(), *other_squares], gates.level),
            _within("stein_gradient", deviations.gradient, deviations.degrees, gates.level),
            _within("stein_identity", deviations.identity, deviations.degrees, gates.level),
        )
    )
    return report, summaries


def _squared_deviations(values: Mapping[str, xr.DataArray], about: Summaries) -> list[Summary]:
    return [
        summarize(((draws - about[name].mean.reshape(draws.shape[2:])) ** 2).rename(f"({name} - mean)^2"))
        for name, draws in values.items()
    ]


def _agreement(main: Sequence[Summary], second: Sequence[Summary], level: float) -> GateResult:
    """Compare the means of both kernels' chains, in standard errors of the difference; equal constants agree."""
    pairs = [
        (abs(a - b) / np.hypot(error, other) if a != b else 0.0, label)
        for first, second_summary in zip(main, second, strict=True)
        for a, b, error, other, label in zip(
            first.mean, second_summary.mean, first.mcse, second_summary.mcse, first.labels, strict=True
        )
    ]
    return at_most("second_kernel", pairs, float(stats.norm.isf(level / (2 * len(pairs)))))


def _within(gate: str, deviations: np.ndarray, degrees: int, level: float) -> GateResult:
    limit = float(stats.t.isf(level / (2 * deviations.size), degrees))
    names = [f"phi[{', '.join(map(str, index))}]" for index in np.ndindex(deviations.shape)]
    return at_most(gate, list(zip(np.abs(deviations).ravel().tolist(), names, strict=True)), limit)
