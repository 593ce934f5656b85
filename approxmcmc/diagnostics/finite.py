"""Draws that are not finite: which parameter has them, in which chain, from which draw on."""

import itertools

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding

NAME = "finite draws"
NAMED = 3  # most parameters that a sentence names
ADVICE = "find out why the sampler returns them; an average over these draws is not a number"


def finite(posterior: xr.Dataset) -> Finding:
    """Return the finding on draws that are NaN or infinite, dims (chain, draw, ...)."""
    sentence = not_finite(posterior)
    if not sentence:
        return Finding(NAME, "ok", "all draws are finite", "", 0.0, 0.0)
    number = sum(int((~np.isfinite(values.to_numpy())).sum()) for values in _floats(posterior))
    return Finding(NAME, "failure", sentence, ADVICE, float(number), 0.0)


def not_finite(posterior: xr.Dataset) -> str:
    """Return a sentence that names the parameters with draws that are not finite; "" if all are finite.

    Examples
    --------
    >>> draws = xr.DataArray(np.zeros((2, 5)), dims=("chain", "draw"), name="mu")
    >>> draws[1, 3:] = np.nan
    >>> not_finite(draws.to_dataset())
    'mu has 2 draws that are not finite (first NaN in chain 1, draw 3)'
    """
    sentences: list[str] = []
    for variable in _floats(posterior):
        extra = [dim for dim in variable.dims if dim not in ("chain", "draw")]
        ordered = variable.transpose("chain", "draw", *extra)
        chains = np.asarray(ordered["chain"]).tolist()
        values = ordered.to_numpy().reshape(*ordered.shape[:2], -1)
        bad = ~np.isfinite(values)
        places = list(itertools.product(*(np.asarray(ordered[dim]).tolist() for dim in extra)))
        for k in np.flatnonzero(bad.any(axis=(0, 1))):
            chain, draw = np.argwhere(bad[..., k])[0]
            label = f"{variable.name}[{', '.join(map(str, places[k]))}]" if extra else str(variable.name)
            number = int(bad[..., k].sum())
            value = "NaN" if np.isnan(values[chain, draw, k]) else f"{values[chain, draw, k]}"
            draws = "1 draw that is" if number == 1 else f"{number} draws that are"
            sentences.append(f"{label} has {draws} not finite (first {value} in chain {chains[chain]}, draw {draw})")
    more = f"; {len(sentences) - NAMED} more parameters" if len(sentences) > NAMED else ""
    return "; ".join(sentences[:NAMED]) + more


def _floats(posterior: xr.Dataset) -> list[xr.DataArray]:
    return [variable for variable in posterior.data_vars.values() if variable.dtype.kind in "fc"]
