"""The defaults of everything public in the rooms of tests, proposals, samplers and bounds, and of `risk`.

Written down once more: a run that leaves a setting out depends on it, and a change of one is announced.
"""

import inspect
import math
from pathlib import Path

import pytest

import approxmcmc as amc

CHANGELOG = Path(__file__).parents[3] / "CHANGELOG.md"
ROOMS = (amc.acceptance, amc.bounds, amc.proposals, amc.samplers)
PUBLIC = {name: getattr(room, name) for room in ROOMS for name in room.__all__} | {
    "SurrogateTransition": amc.SurrogateTransition,
    "risk": amc.risk,
}
DEFAULTS = {
    "AdaptiveDirection": {"gamma": 0.5, "scale": 0.05, "n_members": None, "spread": 1.0},
    "AnnealedEpsilon": {"epsilons": (0.05, 0.01, 0.0), "steps": (1000, 4000), "untested": 0},
    "BernsteinTest": {
        "delta": 0.01,
        "batch_size": 500,
        "growth": 2.0,
        "range": "target",
        "p": 2.0,
        "bound": "bernstein",
        "order": "auto",
    },
    "BouncyParticle": {"refresh_rate": 1.0, "spacing": 1.0},
    "DecreasingStep": {"offset": 1.0, "exponent": 0.55},
    "ExactTest": {"rule": "metropolis"},
    "Exchange": {"n_auxiliary": 1, "auxiliary": "auto"},
    "ExplicitResampling": {"fraction": 0.1},
    "Firefly": {"bound": "tuned", "at": None},
    "Gibbs": {"scan": "systematic", "conditional": "auto"},
    "Hamiltonian": {"length": math.pi / 2.0, "preconditioner": None, "target_acceptance": None, "most_steps": 100},
    "ImplicitResampling": {"q": "auto", "q_bright": 1.0},
    "Independence": {"cov": None},
    "Langevin": {"cov": None, "preconditioner": None, "target_acceptance": None},
    "MALAExchange": {
        "noisy": False,
        "n_auxiliary": 100,
        "cov": None,
        "auxiliary": "auto",
        "refresh": False,
        "target_acceptance": None,
    },
    "MetropolisHastings": {"test": None, "shuffled_copy": "memory"},
    "MinibatchBarker": {
        "target_variance": 1.0,
        "batch_size": 100,
        "temperature": 1.0,
        "correction": "minimax",
        "max_error": None,
        "order": "auto",
    },
    "Mixture": {"weights": None},
    "NoisyLangevin": {"n_auxiliary": 100, "cov": None, "auxiliary": "auto"},
    "PoissonGibbs": {"rate": None, "metropolised": False, "scan": "systematic"},
    "PreconditionedCrankNicolson": {"cov": None},
    "PseudoMarginal": {"refresh": False},
    "RandomWalk": {"scale": 1.0, "target_acceptance": None, "preconditioner": None},
    "SequentialTTest": {
        "epsilon": 0.01,
        "batch_size": 500,
        "growth": 1.0,
        "tol": 0.0,
        "boundary_shape": 0.5,
        "order": "auto",
    },
    "Slice": {"width": 1.0, "max_steps": 8, "directions": "sphere"},
    "StochasticGradientFisherScoring": {"batch_size": 500, "noise_matrix": None, "information": None},
    "StochasticGradientHamiltonian": {
        "friction": 1.0,
        "batch_size": 500,
        "steps": 1,
        "preconditioner": None,
        "control_variate": None,
        "gradient_noise": "tune",
    },
    "StochasticGradientLangevin": {"batch_size": 500, "preconditioner": None, "control_variate": None},
    "StochasticGradientNoseHoover": {"noise": 1.0, "batch_size": 500, "preconditioner": None, "control_variate": None},
    "StochasticGradientZigZag": {"batch_size": 500, "steps": 1, "preconditioner": None, "control_variate": None},
    "SurrogateTransition": {"kernel": "hmc+walls", "steps": 1},
    "TunaTest": {"chi": 0.0},
    "ZigZag": {"spacing": 1.0},
    "acceptance_probability_error": {
        "growth": 1.0,
        "thresholds": "student",
        "boundary_shape": 0.5,
        "rule": "metropolis",
    },
    "annealing_schedule": {"test": None, "first_budget": None, "max_doublings": 60},
    "check_bound": {
        "epsilons": None,
        "knob": "epsilon",
        "reference": None,
        "grid": None,
        "traces": None,
        "coupled": None,
        "draws": 2000,
        "tune": 500,
        "chains": 4,
        "n_pairs": 60,
        "replications": 500,
        "n_audits": 400,
        "method": "auto",
        "confidence": 0.95,
        "random_seed": None,
        "progressbar": True,
    },
    "coupling_bound": {"times": None, "confidence": 0.95, "max_steps": None},
    "couplings": {
        "sampler": None,
        "n_couplings": 200,
        "max_steps": 100000,
        "initvals": None,
        "confidence": 0.95,
        "random_seed": None,
        "progressbar": True,
    },
    "estimate_delta": {
        "n_pairs": 299,
        "replications": 2000,
        "states": None,
        "tune": 1000,
        "thin": 10,
        "confidence": 0.95,
        "share": 0.01,
        "initvals": None,
        "random_seed": None,
        "progressbar": True,
    },
    "exact": {"delta_max": None, "n_decisions": None, "constants": None, "n_steps": 500},
    "first_difference": {"n_steps": 200},
    "hoeffding_langevin_bound": {"dim": 1},
    "langevin_matrix": {"ideal": False},
    "long_run_risk": {"knob": "setting"},
    "mitrophanov_factor": {"distance": "norm"},
    "noisy_exchange_errors": {"constants": None},
    "over_time": {"start": None, "n_steps": 100},
    "sequential_test_error": {"growth": 1.0, "thresholds": "student", "boundary_shape": 0.5},
    "transition_matrix": {"grid": None, "method": "auto", "site": None},
    "correction_distribution": {"sigma": 1.0, "method": "minimax", "regularisation": 1.0, "points": 2001},
    "minibatch_barker_error_bound": {"correction_error": 0.0},
    "realised_conditional": {"replications": 2000, "probability": None, "random_seed": None},
    "risk": {
        "estimands": None,
        "over": "time",
        "grid": None,
        "n_grid": 30,
        "average_over": None,
        "confidence": 0.95,
        "n_bootstrap": 2000,
        "random_seed": 0,
        "include_tuning": True,
        "clock": None,
        "warmup_seconds": None,
    },
}


def defaults_of(name):
    """Return the defaults that have a value; fields of a component may be made anew instead."""
    parameters = inspect.signature(PUBLIC[name]).parameters.items()
    given = {key: each.default for key, each in parameters if each.default is not each.empty}
    return {key: value for key, value in given.items() if "factory" not in repr(value)}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults_are_those_that_were_announced(name):
    assert defaults_of(name) == DEFAULTS[name]


def test_all_that_was_released_is_here():
    """What is new since the last release has no default yet that a run could depend on."""
    public = {name for name, each in PUBLIC.items() if callable(each) and defaults_of(name)}
    assert set(DEFAULTS) <= public
    assert "\n## Unreleased" in CHANGELOG.read_text(encoding="utf-8") or set(DEFAULTS) == public
