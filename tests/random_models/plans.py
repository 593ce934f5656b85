"""The ways in which the library reads a PyMC model, as targets, or as the reason why it does not."""

import approxmcmc as amc
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.interop.plans import target_of
from approxmcmc.interop.whole_model import WholeModel

PLANS = {
    "as chosen": amc.from_pymc,
    "integrated": lambda model: amc.from_pymc(model, integrate=True),
    "linear predictors": lambda model: amc.from_pymc(model, integrate=False),
    "rows of the graph": lambda model: amc.from_pymc(model, integrate=False, structure=False),
}


def read(plan: str, model):
    """Return the target of a plan and "", or None and the reason why there is none."""
    try:
        return PLANS[plan](model), ""
    except ApproxMCMCError as error:
        return None, str(error)


def whole(model):
    """Return the target that `amc.sample` takes, for NUTS if no other is possible."""
    found = target_of(model)
    return found if isinstance(found, WholeModel) else WholeModel(model, "NUTS is asked for")
