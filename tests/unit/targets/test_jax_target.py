"""A model in JAX: its draws beside the library's own model, its names, its prior, its identity, its refusals."""

import functools
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import AlwaysAccept, ExactTest, MinibatchBarker, SequentialTTest
from approxmcmc.errors import CompilationError, IncompatibleError, InvalidInputError
from approxmcmc.proposals import Langevin, RandomWalk, StochasticGradientLangevin
from approxmcmc.targets import JaxTarget, LogisticRegression

jax = pytest.importorskip("jax")
jnp = jax.numpy

N, DIM = 240, 3
MH = amc.MetropolisHastings
RULE = {"draws": 25, "tune": 5, "chains": 2, "random_seed": 3, "progressbar": False, "audit_every": None}
COUNTS = ("datapoints_touched", "likelihood_evaluations", "gradient_evaluations")
SAMPLERS = {
    "exact": MH(RandomWalk(0.2), ExactTest()),
    "t-test, rows": MH(RandomWalk(0.2), SequentialTTest(0.05, batch_size=60, order="rows")),
    "t-test, blocks": MH(RandomWalk(0.2), SequentialTTest(0.05, batch_size=60, order="blocks")),
    "Barker": MH(RandomWalk(0.05), MinibatchBarker(batch_size=60)),
    "Langevin": MH(Langevin(0.1), ExactTest()),
    "SGLD": MH(StochasticGradientLangevin(1e-3, batch_size=60), AlwaysAccept()),
}


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, DIM))
    return X, (rng.random(N) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(float)


def loglik(params, X, y):
    eta = X @ params["beta"]
    return y * eta - jnp.logaddexp(0.0, eta)


def network_loglik(params, X, y):
    hidden = jnp.tanh(X @ params["first"]["kernel"] + params["first"]["bias"])
    eta = (hidden @ params["last"]["kernel"])[:, 0]
    return y * eta - jnp.logaddexp(0.0, eta)


def network():
    rng = np.random.default_rng(1)
    return {
        "first": {"kernel": 0.5 * rng.normal(size=(DIM, 2)), "bias": np.zeros(2)},
        "last": {"kernel": 0.5 * rng.normal(size=(2, 1))},
    }


@functools.cache
def in_jax(dtype="float64"):
    return JaxTarget(loglik, {"beta": np.zeros(DIM)}, data(), prior_scale=2.0, dtype=dtype)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 1e-12), ("float32", 1e-4)])
def test_its_draws_are_those_of_the_library(name, dtype, rounding):
    """Walks draw the same bits, because terms act through decisions; gradients differ by rounding."""
    start = np.full(DIM, 0.1)
    ours, theirs = (
        amc.sample(target, SAMPLERS[name], **RULE, initvals=start)
        for target in (LogisticRegression(*data(), prior_scale=2.0), in_jax(dtype))
    )
    draws, others = (trace["posterior"]["beta"].values for trace in (ours, theirs))
    assert len(np.unique(draws[0], axis=0)) > 3
    assert np.abs(draws - others).max() <= (0.0 if name not in ("Langevin", "SGLD") else rounding)
    for count in COUNTS:
        assert (count in ours["sample_stats"]) == (count in theirs["sample_stats"])
        if count in ours["sample_stats"]:
            assert np.array_equal(ours["sample_stats"][count], theirs["sample_stats"][count])


@pytest.mark.thorough
def test_terms_and_gradients_are_those_of_jax():
    """Also where a batch is padded, or cut; a padding row that counted would show in the gradient."""
    target = JaxTarget(network_loglik, network(), data(), dtype="float64", prior_scale=1.0)
    compiled, slopes = target.compile(), target.compile_gradient()
    theta = target.initial_point() + 0.1
    _, unravel = jax.flatten_util.ravel_pytree(network())
    with jax.enable_x64(True):
        expected = np.asarray(network_loglik(unravel(theta), *data()))
        for rows in (np.arange(N), np.array([3]), np.arange(100)[::-1].copy()):
            out, slope = np.empty(len(rows)), np.zeros(theta.size)
            compiled.log_terms(theta, compiled.data, rows, 0, len(rows), out)
            slopes.add_gradient(theta, slopes.data, rows, 0, len(rows), slope)
            sums = jax.grad(lambda at: network_loglik(unravel(at), *(array[rows] for array in data())).sum())  # noqa: B023
            assert np.allclose(out, expected[rows], rtol=1e-12)
            assert np.allclose(slope, np.asarray(sums(theta)), rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
def test_variables_are_the_leaves_by_path():
    target = JaxTarget(network_loglik, network(), data())
    assert dict(target.variables.shapes) == {"first.bias": (2,), "first.kernel": (DIM, 2), "last.kernel": (2, 1)}
    trace = amc.sample(target, SAMPLERS["exact"], **RULE)
    assert trace["posterior"]["first.kernel"].shape == (2, 25, DIM, 2)
    with pytest.raises(InvalidInputError, match=r"two leaves of params are called a\.b"):
        JaxTarget(loglik, {"a": {"b": np.zeros(1)}, "a.b": np.zeros(1)}, data())


@pytest.mark.thorough
def test_scales_by_leaf_and_a_prior_in_jax_are_the_same_prior():
    scales = {"first": {"kernel": 0.3, "bias": 1.0}, "last": {"kernel": np.array([[2.0], [3.0]])}}

    def logprior(params):
        parts = jax.tree_util.tree_map(lambda scale, leaf: -0.5 * ((leaf / scale) ** 2).sum(), scales, params)
        return sum(jax.tree_util.tree_leaves(parts))

    by_scale = JaxTarget(network_loglik, network(), data(), prior_scale=scales, dtype="float64")
    by_function = JaxTarget(network_loglik, network(), data(), logprior=logprior, dtype="float64")
    theta, slopes = by_scale.initial_point(), np.zeros((2, 10))
    values = [target.compile().log_prior(theta) for target in (by_scale, by_function)]
    for target, slope in zip((by_scale, by_function), slopes, strict=True):
        target.compile_gradient().add_prior_gradient(theta, slope[: theta.size])
    assert np.isclose(*values, rtol=1e-12)
    assert np.allclose(*slopes, rtol=1e-9)
    assert by_scale.normal_prior is not None and by_function.normal_prior is None
    with pytest.raises(InvalidInputError, match="a tree like params"):
        JaxTarget(network_loglik, network(), data(), prior_scale={"first": 1.0})


@pytest.mark.thorough
def test_its_hash_follows_helpers_and_constants_at_any_depth():
    def model(gain):
        table = np.full(DIM, gain)

        def inner(X):
            return X @ table

        def deeper(params, X, y):
            return loglik(params, X, y) + inner(X)

        return JaxTarget(deeper, {"beta": np.zeros(DIM)}, data())

    assert model(1.0).content_hash() == model(1.0).content_hash()
    assert model(1.0).content_hash() != model(2.0).content_hash()
    assert in_jax("float32").content_hash() != in_jax("float64").content_hash()


@pytest.mark.thorough
def test_its_hash_is_the_same_in_another_process(tmp_path):
    script = tmp_path / "model.py"
    script.write_text(
        textwrap.dedent("""
        import numpy as np, jax.numpy as jnp
        from approxmcmc.targets import JaxTarget
        def loglik(params, X):
            return -0.5 * (X @ params["beta"]) ** 2
        print(JaxTarget(loglik, {"beta": np.zeros(2)}, np.ones((40, 2))).content_hash())
        """)
    )
    hashes = {subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout for _ in "ab"}
    assert len(hashes) == 1 and len(hashes.pop().strip()) == 32


@pytest.mark.thorough
def test_a_pickled_target_is_the_same():
    target = JaxTarget(loglik, {"beta": np.zeros(DIM)}, data())
    target.compile()
    again = pickle.loads(pickle.dumps(target))
    assert again.content_hash() == target.content_hash()


def test_batch_statistics_are_refused():
    def normalised(params, X, y):
        return loglik(params, (X - X.mean(0)) / X.std(0), y)

    with pytest.raises(IncompatibleError, match="own row alone"):
        JaxTarget(normalised, {"beta": np.zeros(DIM)}, data())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"loglik": lambda params, X, y: X @ params["beta"] * jnp.ones((2, 1))}, CompilationError, "must have shape"),
        ({"loglik": lambda params, X, y: 1j * loglik(params, X, y)}, CompilationError, "real numbers.*complex64"),
        ({"loglik": lambda params, X, y: loglik(params, X, y).sum()}, CompilationError, r"found \(\)"),
        ({"loglik": "model"}, InvalidInputError, "loglik must be a function"),
        ({"logprior": 1.0}, InvalidInputError, "logprior must be a function"),
        ({"dtype": "float16"}, InvalidInputError, "dtype"),
        ({"params": {}}, InvalidInputError, "no arrays"),
        ({"data": (data()[0], data()[1][:5])}, InvalidInputError, "one row for each term"),
        ({"term_tolerance": -1.0}, InvalidInputError, "term_tolerance"),
    ],
)
def test_wrong_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        JaxTarget(**({"loglik": loglik, "params": {"beta": np.zeros(DIM)}, "data": data()} | settings))


def test_an_exception_in_the_model_is_raised_as_it_is():
    def broken(params, X, y):
        return X @ params["gamma"]

    with pytest.raises(KeyError, match="gamma"):
        JaxTarget(broken, {"beta": np.zeros(DIM)}, data())


def test_operations_are_those_that_xla_counts():
    work = in_jax("float32").term_work
    assert 2 * DIM < work.operations < 40 * DIM and work.gradient > work.operations


@pytest.mark.thorough
def test_a_late_start_is_reported(tmp_path):
    """Where JAX runs before, its asynchronous dispatch stays on; the warning says what that means."""
    script = tmp_path / "late.py"
    script.write_text(
        "import warnings, jax, jax.numpy as jnp, numpy as np\njnp.ones(3).sum().block_until_ready()\n"
        "from approxmcmc.targets import JaxTarget\n"
        "with warnings.catch_warnings(record=True) as caught:\n    warnings.simplefilter('always')\n"
        "    JaxTarget(lambda p, x: -x * p['a'], {'a': np.zeros(())}, np.ones(9))\n"
        "print([str(w.message)[:40] for w in caught])\n"
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert out.count("JAX was started before approxmcmc") == 1


@pytest.mark.thorough
def test_the_code_of_the_documentation_runs():
    page = (Path(__file__).parents[3] / "docs" / "networks.md").read_text(encoding="utf-8")
    code, _ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert "draws=1000, thin=5" in code
    scope = {}
    exec(code.replace("draws=1000, thin=5", "draws=3, tune=0, progressbar=False"), scope)
    assert dict(scope["trace"].posterior["first.kernel"].sizes)["draw"] == 3
