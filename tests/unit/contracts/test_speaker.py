"""In whose name a message is written."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker, speaking
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests.models import logistic


def test_the_innermost_name_counts_and_goes_with_its_function():
    class Walk:
        @names_itself("build {}")
        def build(self):
            return speaker()

    @naming_the_arguments
    def outer():
        return speaker(), Walk().build(), speaker()

    assert outer() == ("outer", "build Walk", "outer")
    with pytest.raises(ZeroDivisionError), speaking("a failure"):
        raise ZeroDivisionError
    assert speaker() == ""


def test_an_inherited_constructor_and_settings_speak_for_the_class_that_is_made():
    class Mine(amc.LogisticRegression):
        pass

    with pytest.raises(InvalidInputError, match=r"^Mine: X must have shape"):
        Mine(np.zeros((2, 2, 2)), np.zeros(2))
    with pytest.raises(InvalidInputError, match=r"^RandomWalk: target_acceptance must lie strictly"):
        amc.RandomWalk(0.1, target_acceptance=2.0)


def test_a_proposal_that_does_not_fit_speaks_for_itself_within_sample():
    sampler = amc.MetropolisHastings(amc.Langevin(0.1, preconditioner=np.ones(2)), amc.ExactTest())
    with pytest.raises(IncompatibleError, match=r"^Langevin: the target has 3 parameters"):
        amc.sample(logistic(30), sampler, draws=1, tune=0, chains=1, random_seed=0, progressbar=False)


def test_a_prior_that_is_compiled_later_speaks_for_its_target():
    target = amc.LogisticRegression(np.ones((3, 1)), [0, 1, 1], prior=lambda theta: "none")
    with pytest.raises(amc.errors.CompilationError, match=r"^LogisticRegression: prior must return one float"):
        target.compile()
