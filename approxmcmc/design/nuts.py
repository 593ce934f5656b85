"""NUTS among the candidates: its cost is counted, since its compilation takes longer than a trial could save.

A leapfrog step is a gradient on all data, and trajectories in d dimensions take some 4 d^(1/4) of them (Beskos and
others 2013). A draw of a tuned trajectory counts as one effective draw.
"""

from approxmcmc.contracts import Target, TwinnedTarget
from approxmcmc.design.survey import Situation
from approxmcmc.nuts.run import model_of
from approxmcmc.nuts.settings import NUTS, TUNE, preferred

COMPILE = 6.0  # seconds in which nutpie compiles a model of a few variables
GRADIENT = 3.0  # passes over the terms, for PyTensor's gradient
LABELS = {"nutpie": "NUTS by nutpie", "pymc": "NUTS by PyMC"}


def name(target: Target | None = None) -> str:
    """Return the candidate's name: with the library that runs continuous models, or the one for this target."""
    if target is None:
        return LABELS[preferred()]
    discrete = model_of(target).discrete_value_vars
    return "NUTS and discrete steps by PyMC" if discrete else LABELS[NUTS().library(target)]


def why_not(known: Situation) -> str:
    """Return why a target has no PyMC model, or ""; the model is only made if NUTS may be the best."""
    return "" if isinstance(known.target, TwinnedTarget) else "the target has no PyMC model"


def sampler(target: Target) -> NUTS:
    """Return NUTS for a target.

    Raises
    ------
    IncompatibleError
        When its PyMC model cannot be made.
    """
    made = NUTS()
    made.library(target)
    return made


def seconds_per_draw(known: Situation) -> float:
    """Return the seconds of a draw; at least as many leapfrog steps as a trajectory of a trial.

    On a horseshoe of 63 parameters tuning took 36 million gradients of 2000 rows in a chain, where 11 for each draw had
    been counted.
    """
    return float(max(4.0 * known.dim**0.25 * GRADIENT * known.pass_seconds, *known.trajectories, 0.0))


def set_up_seconds(known: Situation) -> float:
    """Return the seconds before the first kept draw: those of compilation, and of tuning all chains."""
    return COMPILE + known.chains * TUNE["nutpie"] * seconds_per_draw(known)
