"""Draw a whole model: variables observed over rows, each with a family, a predictor, effects and latent states."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.random_models import effects
from tests.random_models.extras import DETERMINISTICS, POTENTIALS
from tests.random_models.families import FAMILIES
from tests.random_models.latents import LATENTS
from tests.random_models.models import RandomModel
from tests.random_models.predictors import PARTS
from tests.random_models.terms import Term


@st.composite
def random_models(draw: Any, families: Any = FAMILIES, forms: Any = None, latents: Any = LATENTS) -> RandomModel:
    """Draw a model; `families` and `latents` limit the parts that it may have."""
    model = RandomModel(draw)
    n = model.count(4, 14)
    shared = [effects.effects(model) for _ in range(model.pick([0, 1, 1, 1, 2]))]
    inner = [effects.nested(model, shared[0])[0]] if shared and model.rarely(6) else []
    latent = model.pick(latents) if latents and not shared and model.rarely(3) else None
    for outcome in range(model.pick([1, 1, 1, 2])):
        length = n if outcome == 0 or model.rarely(2) else model.count(3, 9)
        _observe(model, length, [*shared, *inner], latent if outcome == 0 else None, families)
    if not model.free:  # known offsets and effects only
        _observe(model, n, [effects.effects(model)], None, families)
    for extras in (DETERMINISTICS, POTENTIALS):
        for _ in range(model.pick([0, 0, 0, 1])):
            if set(model.free) - set(model.discrete):
                model.pick(extras)(model)
    return model


def _observe(model: RandomModel, n: int, shared: list[effects.Effects], latent: Any, families: Any) -> None:
    """Add an observed variable of n rows, or of n rows by two columns."""
    terms = [part(model, n) for part in (model.pick(PARTS) for _ in range(model.count(0 if shared else 1, 2)))]
    terms += [effects.read(model, one, n) for one in shared]
    if latent is not None:
        terms.append(latent(model, n))
    eta = terms[0]
    for one in terms[1:]:
        eta = eta + one
    rows = model.pick(families)(model, eta, n)
    y = rows.law.simulate(model.rng, n)
    if rows.limit is not None:
        y = np.minimum(y, rows.limit)
    if model.rarely(6):
        # An array without parameters must be a tensor first.
        model.deterministic("eta", Term(f"pt.as_tensor({eta.code})", eta.value))
    model.observe("y", rows.law, rows.arguments, y)
