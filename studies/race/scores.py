"""The results of a race: ratios within a round, shifts against a long exact chain, risks."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from studies.race.peers import NUTPIE
from studies.race.problems import Lap
from studies.race.rivals import BASE, Rival

FEWEST = 25  # with fewer effective draws in a round, a rate is computed from another rival's mixing


def effective_samples(draws: np.ndarray) -> np.ndarray:
    """Return ArviZ's effective sample size of the bulk for each coefficient; shape (dim,)."""
    import arviz as az
    import xarray as xr

    return az.ess(xr.Dataset({"beta": (("chain", "draw", "coef"), draws[None])}), method="bulk")["beta"].values


@dataclasses.dataclass(frozen=True)
class Reference:
    """Mean, standard deviation and effective draws of a long exact chain, for each coefficient."""

    mean: np.ndarray
    sd: np.ndarray
    effective: np.ndarray


@dataclasses.dataclass(frozen=True)
class Score:
    """The figures of a lap, without its draws."""

    steps: int
    seconds: float
    data: float
    mean: np.ndarray
    effective: np.ndarray

    @staticmethod
    def of(lap: Lap) -> "Score":
        """Return the figures of a lap."""
        return Score(len(lap.draws), lap.seconds, lap.data, lap.draws.mean(axis=0), effective_samples(lap.draws))


@dataclasses.dataclass(frozen=True)
class Results:
    """The scores of all rivals on one problem, and figures computed from them."""

    rivals: Mapping[str, Rival]
    scores: Mapping[str, list[Score]]  # the first `rounds` were interleaved; more where a bias was measured for longer
    setup: Mapping[str, float]
    reference: Reference
    rounds: int

    def borrows(self, name: str) -> bool:
        """Return whether rounds were too short to measure a rival's mixing, so that another rival's is used."""
        few = np.median([score.effective.min() for score in self.scores[name]]) < FEWEST
        return bool(few and self.rivals[name].mixes_as in self.scores)

    def speed(self, name: str) -> np.ndarray:
        """Return steps per CPU second, round by round."""
        return np.array([score.steps / score.seconds for score in self.scores[name][: self.rounds]])

    def rate(self, name: str) -> np.ndarray:
        """Return min-ESS per CPU second, round by round."""
        scores = self.scores[self.rivals[name].mixes_as if self.borrows(name) else name]
        mixing = np.array([score.effective.min() / score.steps for score in scores])
        return self.speed(name) * (np.median(mixing) if self.borrows(name) else mixing[: self.rounds])

    def versus(self, name: str, other: str) -> tuple[float, float, float] | None:
        """Return median, least and largest ratio over rounds of min-ESS/s to another rival's; None without that."""
        return spread(self.rate(name) / self.rate(other)) if other in self.scores else None

    def against_reference(self, name: str) -> dict[str, float]:
        """Return shift and bias of the means in posterior standard deviations, and their risks after 1 and 10 s.

        bias^2 is the mean over coefficients of shift^2 - noise^2, or 0 if that is negative, where noise is the standard
        error of the shift; its upper limit adds two standard errors, with the noise assumed normal. Risk after t
        seconds is bias^2 + mean of 1 / (ESS per second * t), burn-in left out.
        """
        scores = self.scores[name]
        steps = np.array([score.steps for score in scores])
        seconds = sum(score.seconds for score in scores)
        source = self.scores[self.rivals[name].mixes_as if self.borrows(name) else name]
        effective = sum(s.effective for s in source) / sum(s.steps for s in source) * steps.sum()
        mean = np.average([score.mean for score in scores], axis=0, weights=steps)
        shift = (mean - self.reference.mean) / self.reference.sd
        noise = np.sqrt(1.0 / effective + 1.0 / self.reference.effective)
        maxima = np.abs(np.random.default_rng(0).standard_normal((4000, noise.size)) * noise).max(axis=1)
        bias_squared = float(np.mean(shift**2 - noise**2))
        upper = bias_squared + 2.0 * math.sqrt(float(np.mean(2.0 * noise**4)) / noise.size)
        variance = float(np.mean(seconds / effective))
        return {
            "max_shift": float(np.abs(shift).max()),
            "max_shift_if_unbiased": float(np.quantile(maxima, 0.95)),
            "bias": math.sqrt(max(bias_squared, 0.0)),
            "bias_upper": math.sqrt(max(upper, 0.0)),
            "risk_1s": max(bias_squared, 0.0) + variance,
            "risk_10s": max(bias_squared, 0.0) + variance / 10.0,
            "effective_draws": float(effective.min()),
        }

    def row(self, name: str) -> dict[str, Any]:
        """Return all figures of one rival."""
        rival = self.rivals[name]
        same = rival.same in self.scores
        return {
            "rival": name,
            "proposal": rival.proposal,
            "lever": rival.lever,
            "us_per_step": 1e6 * float(np.median(1.0 / self.speed(name))),
            "data_per_step": float(np.median([score.data for score in self.scores[name]])),
            "ess_per_second": float(np.median(self.rate(name))),
            "ess_borrowed": self.borrows(name),
            "steps_vs_same": spread(self.speed(name) / self.speed(rival.same)) if same else None,
            "ess_vs_same": self.versus(name, rival.same),
            "ess_vs_walk": self.versus(name, BASE),
            "ess_vs_nuts": self.versus(name, NUTPIE),
            **self.against_reference(name),
            "setup_seconds": self.setup[name],
            "seconds_to_400": rival.setup_seconds + 400.0 / float(np.median(self.rate(name))),
        }


def spread(ratios: np.ndarray) -> tuple[float, float, float]:
    """Return median, smallest and largest."""
    return float(np.median(ratios)), float(ratios.min()), float(ratios.max())
