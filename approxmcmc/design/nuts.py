"""NUTS among the candidates: its cost is counted, since its compilation takes longer than a trial could save.

A draw of a tuned trajectory (`interop.nuts_seconds`) counts as one effective draw, or as 0.4 of one if the other
candidates integrate group effects out, 0.1 with few groups.
"""

from approxmcmc.contracts import Target, TwinnedTarget, pymc_model_of
from approxmcmc.design.lower_bounds import LowerBound
from approxmcmc.design.target_profile import TargetProfile
from approxmcmc.interop.nuts_seconds import COMPILE_FACTORS, seconds_of_trajectory, seconds_to_compile
from approxmcmc.whole_chains.settings import NUTS, TUNE, preferred

# Draws for each effective draw, bulk and tail, in a hierarchy where NUTS moves effects together with their scales, so
# that 1000 draws give 400 effective ones. In eleven models of docs/street.md a draw counted as .5, .5, .46, .45, .44,
# .4, .15, .034, .03, .014 and .013 effective draws.
RUNS_OF_EFFECTS = 2.5
# The same with few groups, whose scale is uncertain: with twelve rats of five rows, trajectories diverged in three of
# five runs of 4000 draws, and with twelve hospitals in four of six.
RUNS_OF_FEW = 10.0
FEW_GROUPS = 30
# Above the default of .8: of six runs of `baseball` of docs/street.md one had a divergence with .8, none with .9, and
# sampling took a tenth longer.
CAREFUL = 0.9
LABELS = {"nutpie": "NUTS by nutpie", "pymc": "NUTS by PyMC"}


def name(target: Target | None = None) -> str:
    """Return the candidate's name, with the library that would run this target; None: any continuous model."""
    if target is None:
        return LABELS[preferred()]
    discrete = pymc_model_of(target).discrete_value_vars
    return "NUTS and discrete steps by PyMC" if discrete else LABELS[NUTS().library(target)]


def why_not(profile: TargetProfile) -> str:
    """Return "" if a target can make a PyMC model, else why not; the model is only made if NUTS may be the best."""
    return "" if isinstance(profile.target, TwinnedTarget) else "the target has no PyMC model"


def why_alone(profile: TargetProfile) -> str:
    """Return which code the other candidates would first have to compile, and the seconds of this; "" if none."""
    seconds = profile.seconds_to_compile(frozenset({"terms", "gradient"}))
    if not seconds:
        return ""
    slow = {"groups": "the integrals over groups", "library": "the prior"}
    what = slow.get(profile.term_work.code, "the terms of the rows")
    why = f"; {profile.target.why_no_structure}" if profile.target.why_no_structure else ""
    return f": they would compile {what} and the gradient ({seconds:.0f} s){why}"


def sampler(target: Target) -> NUTS:
    """Return NUTS for a target.

    Raises
    ------
    IncompatibleError
        When its PyMC model cannot be made.
    """
    nuts = NUTS(target_accept=CAREFUL)
    nuts.library(target)
    return nuts


def seconds_per_draw(profile: TargetProfile) -> float:
    """Return the seconds of a draw of a chain; no fewer than a trajectory took in a trial on the model as written.

    On a horseshoe of 63 parameters, tuning took far more gradients than the rule for normal posteriors predicts.
    """
    work = profile.written_work
    tried = (
        profile.trajectories if work.dim == profile.dim else []
    )  # with integrated groups the trial ran on another model
    return max([seconds_of_trajectory(work), *tried])


def lower_bound(profile: TargetProfile) -> LowerBound:
    """Return the estimated seconds of NUTS, not a bound: set-up with compilation and tuning, and an effective draw.

    NUTS has no trial, so `choose_sampler` takes this estimate as its cost.
    """
    draw = seconds_per_draw(profile)
    runs = 1.0
    if profile.written_work.dim != profile.dim:  # the terms are groups
        runs = RUNS_OF_FEW if profile.target.n_obs < FEW_GROUPS else RUNS_OF_EFFECTS
    kept = draw * runs
    return LowerBound(set_up_seconds(profile), kept, per_step=kept)


def set_up_seconds(profile: TargetProfile) -> float:
    """Return the seconds before the first kept draw: compilation, and tuning of all chains."""
    return compilation(profile) + profile.chains * TUNE[preferred()] * seconds_per_draw(profile)


def compilation(profile: TargetProfile) -> float:
    """Return the seconds in which nutpie compiles the model."""
    return COMPILE_FACTORS if profile.term_work.code == "matrices" else seconds_to_compile(profile.written_work)
