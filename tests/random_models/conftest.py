"""Set-up of the tests of random models: cheaper derivatives of priors, without compilation."""

import pytest

from approxmcmc.expansion import posterior


@pytest.fixture(autouse=True)
def gradients_of_priors_by_pytensor(monkeypatch):
    """Take gradients of priors from PyTensor: differences need 2 dim values, each of which takes .3 ms uncompiled."""
    monkeypatch.setattr(posterior, "FEW_PARAMETERS", 0)
