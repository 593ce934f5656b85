"""Finished results of emcee, numpyro and blackjax: their draws by variable, chains first, and the records of each draw.

None of these libraries is imported: a result is recognized by its methods and fields.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.errors import InvalidInputError

DENSITIES = ("logdensity", "loglikelihood")  # fields of states of blackjax with one number for each draw
ENSEMBLE_KERNELS = ("AIES", "ESS")  # numpyro kernels whose chains depend on each other
UNNAMED = "theta"


class LibraryResult(NamedTuple):
    """Draws of another library.

    Parameters
    ----------
    values
        Arrays (chain, draw, ...) by variable; or one array of flat thetas, (chain, draw, dim).
    records
        Records of each draw, shape (chain, draw), by name.
    library
        Its name.
    is_ensemble
        Whether its chains depend on each other.
    """

    values: Any
    records: Mapping[str, np.ndarray]
    library: str
    is_ensemble: bool


def library_result(draws: Any, template: Variables | None) -> LibraryResult | None:
    """Return the draws of a finished result; None if the object is no known one.

    Parameters
    ----------
    draws
        Any object.
    template
        The shapes of the target's variables, which tell the axes of states without a density apart; None if unknown.

    Raises
    ------
    InvalidInputError
        If it is unknown which axes of states are those of draws and chains.
    """
    if hasattr(draws, "get_samples"):  # numpyro.infer.MCMC
        return _of_numpyro(draws)
    if hasattr(draws, "get_chain"):  # emcee.EnsembleSampler
        return _of_emcee(draws)
    if is_states(draws):
        return _of_blackjax(*_states_and_infos(draws), template)
    return None


def is_states(draws: Any) -> bool:
    """Return whether an object holds the states of a blackjax sampler.

    The states have a field ``position``. The loops of blackjax return them with a record for each state, as a tuple
    ``(states, infos)``, or ``(last state, (states, infos))``.
    """
    if hasattr(draws, "position"):
        return True
    is_pair = type(draws) is tuple and len(draws) == 2
    return is_pair and hasattr(draws[0], "position") and not hasattr(draws[1], "position")


def _of_numpyro(mcmc: Any) -> LibraryResult:
    values = {name: np.asarray(each) for name, each in mcmc.get_samples(group_by_chain=True).items()}
    of_draws = next(iter(values.values())).shape[:2]
    fields = mcmc.get_extra_fields(group_by_chain=True) if hasattr(mcmc, "get_extra_fields") else {}
    records = {name: np.asarray(each) for name, each in fields.items() if np.shape(each) == of_draws}
    kernel = type(getattr(mcmc, "sampler", None)).__name__
    return LibraryResult(values, records, "numpyro", kernel in ENSEMBLE_KERNELS)


def _of_emcee(sampler: Any) -> LibraryResult:
    thetas = np.moveaxis(np.asarray(sampler.get_chain()), 1, 0)  # from (draw, walker, dim)
    names = getattr(sampler, "parameter_names", None)  # place, or places, of each parameter in theta
    values = {str(name): thetas[..., place] for name, place in names.items()} if names else thetas
    records = {"lp": np.asarray(sampler.get_log_prob()).T} if hasattr(sampler, "get_log_prob") else {}
    return LibraryResult(values, records, "emcee", is_ensemble=True)


# --- blackjax ---


def _states_and_infos(draws: Any) -> tuple[Any, Any]:
    if hasattr(draws, "position"):
        return draws, None
    first, second = draws
    is_last_and_history = type(second) is tuple and len(second) == 2
    return second if is_last_and_history else (first, second)


def _of_blackjax(states: Any, infos: Any, template: Variables | None) -> LibraryResult:
    position = states.position._asdict() if hasattr(states.position, "_asdict") else states.position
    by_name = position if isinstance(position, Mapping) else {UNNAMED: position}
    arrays = {str(name): np.asarray(values) for name, values in by_name.items()}
    leading = _leading_axes(states, arrays, template, is_flat=position is not by_name)
    if len(leading) == 2 and leading[1] > leading[0]:
        raise InvalidInputError(
            f"States of blackjax need the leading axes (draw,) or (draw, chain); found {leading}, which would be "
            f"{leading[1]} chains of {leading[0]} draws. If chains come first, or are so many, pass a dict of the "
            "arrays of `states.position` with the axes (chain, draw, ...)."
        )
    chains_first = {name: _chains_first(values, leading) for name, values in arrays.items()}
    fields = infos._asdict() if hasattr(infos, "_asdict") else {}
    of_each_draw = {name: each for name, each in fields.items() if getattr(each, "shape", None) == leading}
    records = {name: _chains_first(np.asarray(each), leading) for name, each in of_each_draw.items()}
    values = chains_first if position is by_name else chains_first[UNNAMED]
    return LibraryResult(values, records, "blackjax", is_ensemble=False)


def _leading_axes(
    states: Any, arrays: Mapping[str, np.ndarray], template: Variables | None, *, is_flat: bool
) -> tuple[int, ...]:
    """Return the lengths of the axes of states that come before those of a variable."""
    density = next((getattr(states, name) for name in DENSITIES if getattr(states, name, None) is not None), None)
    if density is not None:
        return tuple(np.shape(density))
    for name, values in arrays.items():
        if template is not None and (is_flat or name in template.shapes):
            n_own_axes = 1 if is_flat else len(template.shapes[name])
            return values.shape[: values.ndim - n_own_axes]
        if values.ndim == 1:
            return values.shape
    raise InvalidInputError(
        "States without a log density do not say which of their axes are those of draws and chains; found "
        f"{ {name: values.shape for name, values in arrays.items()} }. Pass the target, or arrays by variable with the "
        "axes (chain, draw, ...)."
    )


def _chains_first(values: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
    """Return values (draw, ...) or (draw, chain, ...) with the axes (chain, draw, ...)."""
    return np.moveaxis(values, 1, 0) if len(leading) == 2 else values[None]
