"""Look for modes that no chain would visit, before the chains start.

All chains of a chosen sampler start at draws of one normal fit, around one mode. They agree, and R-hat passes, also if
another mode holds half of the posterior. So modes are searched from points far away, unless the posterior is known to
have one mode (`Target.why_one_mode`):

1. Twelve climbs (`numerics.landscape`), on a sample of the rows if there are many, start in pairs that mirror each
   other: four at the initial point plus U(-1, 1), as `pm.sample` starts its chains; two at the initial point plus
   U(-10, 10); two at draws of the prior if it is normal, with a standard deviation of at most 10, else again plus
   U(-10, 10); two at 6 and two at 20 times a draw of N(0, Sigma) from the known mode, with Sigma the posterior
   covariance: about 6 sqrt(d) and 20 sqrt(d) posterior standard deviations away in d dimensions. If two modes are
   mirror images about the centre of a pair, the two climbs of this pair end in different modes.
2. An end belongs to the known mode if it is nearly the same point, or if no valley lies between them.
3. Other ends are climbed again on all rows. Two points that a symmetry connects have equal mass (`targets.symmetries`);
   for others the Laplace approximation gives the ratio of the masses. A mode with less than 1e-4 of the mass is left
   out.
4. The sampler runs from each mode that is left. If its chain reaches the known mode, chains move between the two.
   Otherwise some chains of the run start there, so that R-hat compares the modes.

The chains of a posterior in which no other mode was found start where they would without the search.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.design.candidates import Pairing
from approxmcmc.design.target_profile import FAILURES, TargetProfile
from approxmcmc.design.trial import BURN_IN
from approxmcmc.engine.messages import first_clause
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.expansion.general import ExpandsItself
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.numerics.landscape import Climb, Landscape
from approxmcmc.numerics.sparse_normal import NormalFit
from approxmcmc.sampling.assembly import assemble, make_steps
from approxmcmc.targets.regression import Regression, dense
from approxmcmc.targets.symmetries import symmetry_between

STREAM = 0x6D6F6465  # "mode": the key of the random stream of the search, which no chain uses
# distances of the far starts, see the module
JITTER = 1.0
WIDE = 10.0
STANDARD_DEVIATIONS = (6.0, 20.0)  # in each coordinate
# Rows of the first climbs: a number, and a number for each parameter. All rows if that is more than half of them.
FEWEST_ROWS = 2000
FOR_EACH = 100
FEWEST_WITHOUT_GRADIENT = 500  # a climb by differences takes 2 dim passes for each gradient
SAME = 1.0  # distance, in posterior standard deviations, below which two ends are one
MOST_MODES = 3  # other modes that are looked at further, those with the highest log density
NEGLIGIBLE = math.log(1e-4)  # logarithm of a mode's mass, relative to the known mode, below which it is ignored
MOST_PARAMETERS = 200  # with more, no Laplace approximation of another mode is made, and its mass is unknown
STEPS = 150  # length of a chain from another mode; the last 100 steps show whether it reached the known mode
DRAWS_FOR_LEVEL = 9  # of the fit; a climb that ends below the median of their log densities is unfinished
REACHED = 3.0  # standard deviations of the fit around the known mode within which a chain has reached it
SHARE = 0.05  # smallest share of these last states that must lie within


class OtherMode(NamedTuple):
    """Another mode than the known one.

    `log_density` and `log_mass` are differences from the known mode in nats, NaN if unknown; `distance` is in
    posterior standard deviations; `symmetry` names the map that takes one mode to the other, "" if no symmetry
    does; `is_left` says whether a chain of the sampler moved from there to the known mode; `starts`, shape (n,
    dim), are states of a chain that stayed around the mode, none if the chain left it, or if the sampler cannot run
    there.
    """

    log_density: float
    log_mass: float
    distance: float
    symmetry: str
    is_left: bool
    starts: np.ndarray


class Search(NamedTuple):
    """The result of a search for other modes.

    `searches` is the number of climbs, `unfinished` how many of them ended on a slope far below the posterior, `passes`
    the passes over all rows that the search took. `others` are the other modes; `left_out` is the largest log mass,
    relative to the known mode, of those with a negligible mass, NaN if no mode has one. `failure` says why the search
    failed.
    """

    searches: int = 0
    unfinished: int = 0
    passes: float = 0.0
    others: tuple[OtherMode, ...] = ()
    left_out: float = math.nan
    failure: str = ""

    @property
    def apart(self) -> bool:
        """Whether there is a mode between which and the known one the sampler was not seen to move."""
        return any(not mode.is_left for mode in self.others)


def search_modes(target: Target, setting: Pairing, fit: NormalFit, profile: TargetProfile) -> Search:
    """Return what a search from far starts found; chains of the sampler of `setting` start at draws of `fit`."""
    rng = np.random.default_rng(np.random.SeedSequence(profile.seed, spawn_key=(STREAM,)))
    # Where no mode was searched, the closed forms are not compiled, but the gradient is.
    compiles_forms = isinstance(target, Regression | ExpandsItself) and dense(target) is None
    is_closed = not compiles_forms or profile.has("mode")
    try:
        return _search(target, setting, fit, is_closed, profile.seed, rng)
    except FAILURES as error:
        return Search(failure=first_clause(str(error)))


def _search(
    target: Target, setting: Pairing, fit: NormalFit, is_closed: bool, seed: int, rng: np.random.Generator
) -> Search:
    whole = Landscape(target, fit, None, is_closed=is_closed)
    rows = _some_rows(target, whole, rng)
    landscape = whole if rows is None else Landscape(target, fit, rows, is_closed=is_closed)
    level = _level(landscape, fit, rng)
    top = landscape.climb(np.zeros(fit.mode.size), level)
    ends = [landscape.climb(start, level) for start in far_starts(target, landscape, rng)]
    arrived = [end for end in ends if end.is_flat or end.value >= level]
    apart = _distinct(landscape, top, _folded(target, landscape, top, arrived))
    if apart and landscape is not whole:
        top = whole.climb(top.phi)
        again = [whole.climb(end.phi) for end in apart]
        apart = _distinct(whole, top, [end for end in again if end.is_flat])
    others = []
    left_out = math.nan
    for k, end in enumerate(apart):
        log_mass, symmetry = _mass(target, whole, top, end, rng)
        if log_mass < NEGLIGIBLE:
            left_out = float(np.fmax(left_out, log_mass))
            continue
        states = _chain_from(setting, whole, end, seed + k)
        is_left = states is not None and _reaches(whole, top, end, states)
        if is_left and not end.is_flat:
            continue  # a slope of the known mode, such as the neck of a funnel
        starts = np.empty((0, fit.mode.size)) if states is None or is_left else states[BURN_IN:][::-25]
        distance = float(np.linalg.norm(end.phi - top.phi))
        others.append(OtherMode(end.value - top.value, log_mass, distance, symmetry, is_left, starts))
    passes = whole.passes + (0.0 if landscape is whole else landscape.passes)
    return Search(len(ends), len(ends) - len(arrived), passes, tuple(others), left_out)


def _level(landscape: Landscape, fit: NormalFit, rng: np.random.Generator) -> float:
    """Return the median log density of some draws of the fit, without those outside the support.

    If all draws are outside, return the log density at the mean of the fit.
    """
    values = np.array([landscape.value(landscape.phi(fit.draw(rng))) for _ in range(DRAWS_FOR_LEVEL)])
    inside = values[np.isfinite(values)]
    return float(np.median(inside)) if inside.size else landscape.value(np.zeros(fit.mode.size))


def _some_rows(target: Target, whole: Landscape, rng: np.random.Generator) -> np.ndarray | None:
    """Return the indices of the rows that the first climbs read; None for all."""
    rows_needed = FEWEST_ROWS + FOR_EACH * target.variables.size if whole.has_slopes else FEWEST_WITHOUT_GRADIENT
    if 2 * rows_needed > target.n_obs:
        return None
    return np.sort(rng.choice(target.n_obs, rows_needed, replace=False, shuffle=False))


def far_starts(target: Target, landscape: Landscape, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield whitened starts far from the known mode, in pairs that mirror each other about a centre; see the module."""
    initial = np.asarray(target.initial_point(), dtype=np.float64)
    dim = initial.size
    centre = initial
    shift_of_prior = rng.uniform(-WIDE, WIDE, size=dim)
    if target.normal_prior is not None:
        centre, precision = target.normal_prior
        shift_of_prior = rng.standard_normal(dim) / np.sqrt(np.maximum(precision, WIDE**-2))
    pairs = [
        (initial, rng.uniform(-JITTER, JITTER, size=dim)),
        (initial, rng.uniform(-JITTER, JITTER, size=dim)),
        (initial, rng.uniform(-WIDE, WIDE, size=dim)),
        (centre, shift_of_prior),
    ]
    whitened = [(landscape.phi(middle), landscape.phi(middle + shift)) for middle, shift in pairs]
    whitened += [(np.zeros(dim), distance * rng.standard_normal(dim)) for distance in STANDARD_DEVIATIONS]
    for middle, start in whitened:
        yield _inside(landscape, middle, start)
        yield _inside(landscape, middle, 2.0 * middle - start)


def _inside(landscape: Landscape, centre: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Return `far`, or the first point halfway, a quarter ... of the way to it at which the log density is finite."""
    for halving in range(10):
        point = centre + 0.5**halving * (far - centre)
        if np.isfinite(landscape.value(point)):
            return point
    return centre


def _folded(target: Target, landscape: Landscape, top: Climb, ends: list[Climb]) -> list[Climb]:
    """Return the ends whose parameters differ from those of `top`: a scale of either sign is one parameter."""

    def one_of_equal(phi: np.ndarray) -> np.ndarray:
        values = target.variables.unpack(landscape.theta(phi)[None, None])
        return landscape.phi(target.variables.pack_draws(values)[0, 0])

    suspects = [end for end in ends if not _is_same(landscape, top, end)]
    if not suspects:
        return []
    base = one_of_equal(top.phi)
    return [end for end in suspects if np.linalg.norm(one_of_equal(end.phi) - base) > SAME]


def _is_same(landscape: Landscape, end: Climb, other: Climb) -> bool:
    near = np.linalg.norm(end.phi - other.phi) <= SAME
    return bool(near) or landscape.is_connected(end.phi, other.phi)


def _distinct(landscape: Landscape, top: Climb, ends: list[Climb]) -> list[Climb]:
    """Return ends that are apart from `top` and from each other, those of highest density, at most `MOST_MODES`."""
    kept: list[Climb] = []
    for end in sorted(ends, key=lambda end: -end.value):
        if len(kept) < MOST_MODES and not any(_is_same(landscape, mode, end) for mode in (top, *kept)):
            kept.append(end)
    return kept


def _mass(target: Target, landscape: Landscape, top: Climb, end: Climb, rng: np.random.Generator) -> tuple[float, str]:
    """Return log(mass at `end` / mass at `top`), NaN if unknown, and the name of a symmetry between them, or ""."""
    centre = landscape.theta(top.phi)
    other = landscape.theta(end.phi)
    sd = np.abs(landscape.factor) if landscape.factor.ndim == 1 else np.linalg.norm(landscape.factor, axis=1)

    def log_density(theta: np.ndarray) -> float:
        return landscape.value(landscape.phi(theta))

    symmetry = symmetry_between(target.variables, log_density, centre, other, sd, rng)
    if symmetry is not None:
        return 0.0, symmetry.name
    if not (top.is_flat and end.is_flat) or centre.size > MOST_PARAMETERS:
        return math.nan, ""
    try:
        masses = [_log_mass(target, theta) for theta in (centre, other)]
    except ApproxMCMCError:
        return math.nan, ""
    return masses[1] - masses[0], ""


def _log_mass(target: Target, theta: np.ndarray) -> float:
    """Return the Laplace approximation of the log of the integral around a mode, up to a constant; NaN if flat."""
    at_mode = Posterior(target).at(theta)
    sign, log_determinant = np.linalg.slogdet(-at_mode.hessian)
    return float(at_mode.value - 0.5 * log_determinant) if sign > 0 else math.nan


def _chain_from(setting: Pairing, landscape: Landscape, end: Climb, seed: int) -> np.ndarray | None:
    """Return the states of a chain from another mode, shape (STEPS, dim); None if the sampler cannot run there."""
    start = end.phi if end.is_flat or end.crossing is None else end.crossing
    try:
        run = assemble(
            setting.target, setting.sampler, seed=seed, chains=1, tune=BURN_IN, initvals=landscape.theta(start)
        )
        return make_steps(run.chains[0], STEPS, landscape.mean.size, message="a chain from another mode stopped").draws
    except FAILURES:
        return None


def _reaches(landscape: Landscape, top: Climb, end: Climb, states: np.ndarray) -> bool:
    """Return whether the last states of a chain from `end` lie where the fit around the known mode has its draws.

    States are projected on the line between the modes, in whitened coordinates, in which the fit is N(0, I). A mode may
    lie within `REACHED` itself; then half of the way to the known mode counts. An end that is not flat is no mode, but
    may be a slope in the middle of the fit, such as the neck of a funnel, whose mode is not at the mean of the fit.
    """
    direction = (end.phi - top.phi) / np.linalg.norm(end.phi - top.phi)
    projected = np.array([landscape.phi(theta) @ direction for theta in states[BURN_IN:]])
    limit = min(REACHED, 0.5 * (top.phi + end.phi) @ direction) if end.is_flat else REACHED
    return bool(np.mean(projected <= limit) >= SHARE)


def spread_starts(starts: np.ndarray, others: tuple[OtherMode, ...]) -> tuple[np.ndarray, list[list[int]]]:
    """Return the starts of chains, shape (chains, dim), dealt out to the modes, and the chains of each other mode.

    Every chain k with ``k % (1 + len(others)) == 0`` keeps its start.
    """
    dealt = starts.copy()
    chains = []
    for m, mode in enumerate(others, 1):
        mine = list(range(m, len(starts), 1 + len(others))) if len(mode.starts) else []
        for start, k in enumerate(mine):
            dealt[k] = mode.starts[start % len(mode.starts)]
        chains.append(mine)
    return dealt, chains


def as_record(search: Search, chains: list[list[int]]) -> str:
    """Return what is known of modes as JSON, for the attribute ``modes`` of a trace; see `diagnostics.modes`."""
    record: dict[str, Any] = {
        "failure": search.failure,
        "searches": search.searches,
        "unfinished": search.unfinished,
        "passes": round(search.passes, 2),
        "left_out": None if math.isnan(search.left_out) else search.left_out,
        "others": [
            {
                "log_density": mode.log_density,
                "log_mass": None if math.isnan(mode.log_mass) else mode.log_mass,
                "distance": mode.distance,
                "symmetry": mode.symmetry,
                "is_left": mode.is_left,
                "chains": mine,
            }
            for mode, mine in zip(search.others, chains, strict=True)
        ],
    }
    return json.dumps(record)


def started_elsewhere(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Return the attribute ``modes`` of a run whose chains start at points of the user; {} if no mode was searched."""
    if "modes" not in attrs:
        return {}
    record = json.loads(attrs["modes"])
    others = [{**mode, "chains": []} for mode in record["others"]]
    return {"modes": json.dumps({**record, "others": others, "starts_given": True})}
