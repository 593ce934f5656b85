"""Effects and deterministics of groups are computed from draws by one compiled function, for groups in any order."""

import numpy as np
import pytensor
import pytest

from approxmcmc.interop import walk
from approxmcmc.interop.groups import effects
from approxmcmc.interop.groups.target import integrated
from tests.unit.interop.test_groups_of_pymc import G, hierarchy

pytestmark = pytest.mark.needs_jit  # the prior is compiled by PyTensor's numba backend


def drawn_from(target, n):
    rng = np.random.default_rng(0)
    thetas = target.initial_point() + 0.1 * rng.normal(size=(n, target.variables.size))
    return thetas, rng.normal(size=(n, G, target.n_effects))


@pytest.mark.parametrize("written", ["named", "predictors of groups", "slopes", "nested"])
def test_each_group_has_its_own_effect_in_whatever_order_groups_are_asked_for(written):
    """Planted bug: with all groups asked for in another order, predictors of groups were those of other groups."""
    target = integrated(hierarchy(written))
    thetas, u = drawn_from(target, 3)
    whole = target.name_latents(thetas, u, np.arange(G))
    for groups in ([2, 0, 3, 1], [3, 1], [1]):
        for name, (_, values) in target.name_latents(thetas, u[:, groups], np.array(groups)).items():
            np.testing.assert_array_equal(values, whole[name][1][:, groups])


def test_the_function_is_compiled_once_and_read_in_chunks(monkeypatch):
    """Functions of a theta and the effects are counted; PyMC compiles others for its initial point."""
    target, inputs_of_compiled = integrated(hierarchy("named")), []
    right = pytensor.function

    def counted(inputs, *others, **settings):
        inputs_of_compiled.append(len(inputs))
        return right(inputs, *others, **settings)

    monkeypatch.setattr(walk.pytensor, "function", counted)
    thetas, u = drawn_from(target, 7)
    whole = target.name_latents(thetas, u, np.arange(G))["b"][1]
    monkeypatch.setattr(effects, "AT_ONCE", 2 * G)
    np.testing.assert_array_equal(target.name_latents(thetas, u, np.arange(G))["b"][1], whole)
    np.testing.assert_array_equal(target.name_latents(thetas, u[:, [3]], np.array([3]))["b"][1], whole[:, [3]])
    assert inputs_of_compiled.count(2) == 1
