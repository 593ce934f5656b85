"""A model in PyTorch: its draws beside the library's own model, its names, its prior, its identity, its refusals."""

import functools
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import AlwaysAccept, ExactTest, SequentialTTest
from approxmcmc.errors import CompilationError, IncompatibleError, InvalidInputError
from approxmcmc.proposals import Langevin, RandomWalk, StochasticGradientLangevin
from approxmcmc.targets import LogisticRegression, TorchTarget

torch = pytest.importorskip("torch")

N, DIM = 240, 3
MH = amc.MetropolisHastings
RULE = {"draws": 25, "tune": 5, "chains": 2, "random_seed": 3, "progressbar": False, "audit_every": None}
COUNTS = ("datapoints_touched", "likelihood_evaluations", "gradient_evaluations")
SAMPLERS = {
    "exact": MH(RandomWalk(0.2), ExactTest()),
    "t-test, rows": MH(RandomWalk(0.2), SequentialTTest(0.05, batch_size=60, order="rows")),
    "t-test, blocks": MH(RandomWalk(0.2), SequentialTTest(0.05, batch_size=60, order="blocks")),
    "Langevin": MH(Langevin(0.1), ExactTest()),
    "SGLD": MH(StochasticGradientLangevin(1e-3, batch_size=60), AlwaysAccept()),
}


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, DIM))
    return X, (rng.random(N) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(float)


def linear():
    module = torch.nn.Linear(DIM, 1, bias=False)
    torch.nn.init.zeros_(module.weight)
    return module


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(DIM, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))


def loglik(module, X, y):
    eta = module(X)[:, 0]
    return y * eta - torch.nn.functional.softplus(eta)


def in_torch(dtype="float64"):
    return TorchTarget(loglik, linear(), data(), prior_scale=2.0, dtype=dtype)


@pytest.mark.parametrize("name", SAMPLERS)
def test_its_draws_are_those_of_the_library(name):
    start = np.full(DIM, 0.1)
    ours, theirs = (
        amc.sample(target, SAMPLERS[name], **RULE, initvals=start)
        for target in (LogisticRegression(*data(), prior_scale=2.0), in_torch())
    )
    draws, others = ours["posterior"]["beta"].values, theirs["posterior"]["weight"].values[:, :, 0]
    assert len(np.unique(draws[0], axis=0)) > 3
    assert np.abs(draws - others).max() <= (0.0 if name not in ("Langevin", "SGLD") else 1e-12)
    for count in COUNTS:
        if count in ours["sample_stats"]:
            assert np.array_equal(ours["sample_stats"][count], theirs["sample_stats"][count])


def test_terms_and_gradients_are_those_of_torch():
    target = TorchTarget(loglik, network(), data(), dtype="float64")
    compiled, slopes = target.compile(), target.compile_gradient()
    theta, rows = target.initial_point(), np.arange(100)[::-1].copy()
    module = network().double()
    total = loglik(module, *(torch.from_numpy(array[rows]) for array in data()))
    total.sum().backward()
    out, slope = np.empty(100), np.zeros(theta.size)
    compiled.log_terms(theta, compiled.data, rows, 0, 100, out)
    slopes.add_gradient(theta, slopes.data, rows, 0, 100, slope)
    assert np.allclose(out, total.detach().numpy(), rtol=1e-12)
    expected = np.concatenate([leaf.grad.numpy().ravel() for leaf in module.parameters()])
    assert np.allclose(slope, expected, rtol=1e-9, atol=1e-12)


def test_variables_are_the_parameters_by_name_and_the_module_is_not_changed():
    module = network()
    before = [leaf.clone() for leaf in module.parameters()]
    target = TorchTarget(loglik, module, data())
    assert dict(target.variables.shapes) == {"0.weight": (2, DIM), "0.bias": (2,), "2.weight": (1, 2), "2.bias": (1,)}
    amc.sample(target, SAMPLERS["SGLD"], **RULE)
    assert all(torch.equal(*pair) and pair[1].requires_grad for pair in zip(before, module.parameters(), strict=True))


def test_scales_by_name_and_a_prior_in_torch_are_the_same_prior():
    scales = {"0.weight": 0.3, "0.bias": 1.0, "2.weight": 2.0, "2.bias": 1.0}

    def logprior(module):
        return sum(-0.5 * ((leaf / scales[name]) ** 2).sum() for name, leaf in module.named_parameters())

    by_scale = TorchTarget(loglik, network(), data(), prior_scale=scales, dtype="float64")
    by_function = TorchTarget(loglik, network(), data(), logprior=logprior, dtype="float64")
    theta = by_scale.initial_point()
    slopes = np.zeros((2, theta.size))
    for target, slope in zip((by_scale, by_function), slopes, strict=True):
        target.compile_gradient().add_prior_gradient(theta, slope)
    assert np.isclose(by_scale.compile().log_prior(theta), by_function.compile().log_prior(theta), rtol=1e-12)
    assert np.allclose(*slopes, rtol=1e-9)
    with pytest.raises(InvalidInputError, match="a number for each of the parameters"):
        TorchTarget(loglik, network(), data(), prior_scale={"0.weight": 1.0})


def test_its_hash_follows_helpers_constants_and_buffers():
    def model(gain, shift=0.0):
        table = torch.full((DIM,), gain)
        module = linear()
        module.register_buffer("shift", torch.tensor(shift))

        def inner(X):
            return X @ table.to(X.dtype)

        return TorchTarget(lambda net, X, y: loglik(net, X, y) + inner(X) + net.shift, module, data())

    hashes = [model(*values).content_hash() for values in [(1.0,), (1.0,), (2.0,), (1.0, 0.5)]]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3


def test_a_pickled_target_is_the_same():
    target = in_torch()
    target.compile()
    assert pickle.loads(pickle.dumps(target)).content_hash() == target.content_hash()


@pytest.mark.parametrize("layer", [torch.nn.BatchNorm1d(DIM), torch.nn.Dropout(0.5)])
def test_batch_statistics_and_dropout_are_refused_in_training_mode(layer):
    module = torch.nn.Sequential(layer, torch.nn.Linear(DIM, 1))
    with pytest.raises(IncompatibleError, match="own row alone"):
        TorchTarget(loglik, module, data())
    TorchTarget(loglik, module.eval(), data())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"loglik": lambda module, X, y: module(X)}, CompilationError, "must have shape"),
        ({"loglik": "model"}, InvalidInputError, "loglik must be a function"),
        ({"module": {"beta": np.zeros(DIM)}}, InvalidInputError, "torch.nn.Module with parameters"),
        ({"dtype": "float16"}, InvalidInputError, "dtype"),
        ({"data": (data()[0], data()[1][:5])}, InvalidInputError, "one row for each term"),
    ],
)
def test_wrong_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        TorchTarget(**({"loglik": loglik, "module": linear(), "data": data()} | settings))


def test_the_code_of_the_documentation_runs():
    page = (Path(__file__).parents[3] / "docs" / "networks.md").read_text(encoding="utf-8")
    _, code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    rng = np.random.default_rng(0)
    scope = {"amc": amc, "X": rng.normal(size=(50, 5)), "y": rng.integers(0, 2, 50).astype(float)}
    exec(code, scope)
    assert scope["target"].variables.size == 57
