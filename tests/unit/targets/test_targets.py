"""Targets: what they hold, what they refuse, and that their compiled terms are the model's."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.contracts import Target as TargetProtocol
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import CompilationError, IncompatibleError, InvalidInputError
from approxmcmc.targets import FunctionTarget, GLMTarget, LogisticRegression
from tests.models import logistic, normal_loglik, normal_logprior, normal_mean

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
y = (X[:, 0] + rng.normal(size=30) > 0).astype(int)
ROWS = {"data": np.arange(5.0), "n_obs": 5, "dim": 1}


def terms(target, theta):
    compiled = target.compile()
    return full_terms(compiled.log_terms, np.asarray(theta, dtype=float), compiled.data, compiled.n_obs)


class TestLogisticRegression:
    def test_terms_and_prior_are_the_models(self):
        target, theta = LogisticRegression(X, y, prior_scale=0.7), np.array([0.4, -1.1])
        expected = stats.bernoulli.logpmf(y, 1.0 / (1.0 + np.exp(-X @ theta)))
        np.testing.assert_allclose(terms(target, theta), expected, rtol=1e-12)
        log_prior = target.compile().log_prior
        expected = stats.norm.logpdf(theta, scale=0.7).sum() - stats.norm.logpdf(0 * theta, scale=0.7).sum()
        assert log_prior(theta) - log_prior(0 * theta) == pytest.approx(expected, rel=1e-12)

    def test_both_codings_of_y_are_one_model(self):
        zero_one, signs = LogisticRegression(X, y), LogisticRegression(X, 2 * y - 1)
        np.testing.assert_array_equal(zero_one.y, signs.y)
        assert zero_one.content_hash() == signs.content_hash()

    def test_labels_come_from_the_data_frame(self):
        target = LogisticRegression(pd.DataFrame(X, columns=["age", "dose"]), pd.Series(y), intercept=True)
        assert target.variables.coords == {"coef": ["intercept", "age", "dose"]}
        np.testing.assert_array_equal(target.X[:, 0], 1.0)

    def test_read_only_arrays_are_sampled_like_others(self):
        """Pandas and workers hand out arrays that may not be written to; numba gives them a type of their own."""
        frozen = X.copy()
        frozen.flags.writeable = False
        theta = np.array([0.4, -1.1])
        expected = terms(LogisticRegression(X, y), theta)
        np.testing.assert_array_equal(terms(LogisticRegression(frozen, y), theta), expected)

    def test_the_users_prior_is_used(self):
        def prior(theta):
            return -abs(theta[0])

        target = LogisticRegression(X, y, prior=prior)
        assert target.compile().log_prior(np.array([-2.0, 5.0])) == -2.0
        with pytest.raises(IncompatibleError, match="PyMC twin"):
            target.to_pymc()

    def test_flat_prior(self):
        assert LogisticRegression(X, y, prior_scale=math.inf).compile().log_prior(np.array([3.0, 4.0])) == 0.0

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ((X[:10], y), r"same n >= 1, found X \(10, 2\) and y \(30,\)"),
            ((X[:, 0], y), r"found X \(30,\)"),
            ((np.where(X[3, 1] == X, np.nan, X), y), r"X has 1 NaN .* index \(3, 1\)"),
            ((np.where(X[3, 1] == X, np.inf, X), y), "infinite"),
            ((X, y + 1), r"0/1 or -1/1, found \[1.0, 2.0\]"),
            ((X.astype(str), y), "X must hold numbers, found dtype <U"),
            ((X, y, 0.0), "prior_scale must be positive"),
            ((X, y, -1.0), "prior_scale must be positive"),
            ((X, y, math.nan), "prior_scale must be positive"),
        ],
    )
    def test_bad_data_are_refused_with_what_was_found(self, arguments, match):
        with pytest.raises(InvalidInputError, match=match):
            LogisticRegression(*arguments)

    def test_wrong_number_of_names(self):
        with pytest.raises(InvalidInputError, match="2 columns, 1 names"):
            LogisticRegression(X, y, coef_names=["a"])

    def test_it_fits_the_protocol_and_prints_its_size(self):
        assert isinstance(LogisticRegression(X, y), TargetProtocol)
        assert repr(LogisticRegression(X, y)) == "LogisticRegression(n_obs=30, dim=2)"

    def test_equal_targets_have_equal_hashes(self):
        assert logistic().content_hash() == logistic().content_hash()
        assert logistic().content_hash() != logistic(prior_scale=2.0).content_hash()
        assert logistic().content_hash() != logistic(seed=1).content_hash()


class TestGLMTarget:
    def test_poisson_terms(self):
        counts = rng.poisson(2.0, size=30).astype(float)
        target, theta = GLMTarget(lambda eta, y: y * eta - math.exp(eta), X, counts), np.array([0.1, 0.2])
        expected = counts * (X @ theta) - np.exp(X @ theta)
        np.testing.assert_allclose(terms(target, theta), expected, rtol=1e-12)

    def test_the_logistic_form_equals_the_built_in(self):
        mine = GLMTarget(lambda eta, y: y * eta - amc.engine.numerics.softplus(eta), X, y)
        theta = np.array([0.3, -0.2])
        np.testing.assert_allclose(terms(mine, theta), terms(LogisticRegression(X, y), theta), rtol=1e-13)

    def test_a_function_that_returns_an_array_is_refused(self):
        with pytest.raises(CompilationError, match=r"must return one float, found ndarray"):
            GLMTarget(lambda eta, y: np.ones(2) * eta, X, y)


class TestUserTarget:
    def test_terms_and_prior(self):
        target = normal_mean(20)
        np.testing.assert_allclose(terms(target, [0.5]), -0.5 * (target.data[0] - 0.5) ** 2, rtol=1e-12)
        assert target.compile().log_prior(np.array([0.5])) == normal_logprior(np.array([0.5]))

    def test_names_shapes_and_labels(self):
        def shapes(**settings):
            arguments = {**ROWS, "dim": 3} | settings
            return dict(FunctionTarget(lambda t, d, i: 0.0, lambda t: 0.0, **arguments).variables.shapes)

        assert shapes() == {"theta": (3,)}
        assert shapes(dim=1) == {"theta": (1,)}
        assert shapes(var_names=["w"]) == {"w": (3,)}
        assert shapes(var_names=["a", "b", "c"]) == {"a": (), "b": (), "c": ()}
        coords = {"axis": ["one", "two"]}
        assert shapes(var_names=["a", "w"], dims={"w": ["axis"]}, coords=coords) == {"a": (), "w": (2,)}
        with pytest.raises(InvalidInputError, match="hold 2 numbers, dim is 3"):
            shapes(var_names=["a", "b"])

    def test_other_arrays_pass_through(self):
        def loglik(theta, data, i):
            x, table = data
            return x[i] * table[1, 2] * theta[0]

        target = FunctionTarget(loglik, normal_logprior, data=(np.arange(5.0), np.full((2, 3), 7.0)), n_obs=5, dim=1)
        np.testing.assert_allclose(terms(target, [1.0]), 7.0 * np.arange(5.0))

    def test_data_without_n_obs_rows(self):
        with pytest.raises(InvalidInputError, match=r"no array in data has n_obs = 7 rows, found shapes \[\(5,\)\]"):
            FunctionTarget(normal_loglik, normal_logprior, data=np.arange(5.0), n_obs=7, dim=1)

    def test_an_error_in_plain_python_is_told(self):
        def loglik(theta, data, i):
            return data[3][i]

        with pytest.raises(
            CompilationError, match=r"loglik fails in plain Python with IndexError.*\n.*loglik\(theta, data, i\)"
        ):
            FunctionTarget(loglik, normal_logprior, **ROWS)

    @pytest.mark.needs_jit
    def test_a_function_that_does_not_compile_is_told_with_its_signature(self):
        def loglik(theta, data, i):
            return float(str(theta[0]))

        with pytest.raises(
            CompilationError, match=r"loglik does not compile(.|\n)*expected signature: loglik\(theta, data, i\)"
        ):
            FunctionTarget(loglik, normal_logprior, **ROWS)

    @pytest.mark.needs_jit
    def test_a_prior_that_does_not_compile_is_told(self):
        def prior(theta):
            return sum({str(t): t for t in theta}.values())

        with pytest.raises(CompilationError, match="logprior"):
            FunctionTarget(normal_loglik, prior, **ROWS)

    def test_a_row_instead_of_a_number_is_told(self):
        def loglik(theta, data, i):
            return data[0][i] * theta

        with pytest.raises(CompilationError, match=r"must return one float, found ndarray of shape \(1,\)"):
            FunctionTarget(loglik, normal_logprior, **ROWS)

    def test_builtins_are_refused(self):
        with pytest.raises(InvalidInputError, match="plain Python function"):
            FunctionTarget(math.exp, normal_logprior, **ROWS)

    @pytest.mark.parametrize("bad", [{"n_obs": 0}, {"dim": 0}, {"dim": 1.5}, {"initial_point": [0.0, 1.0]}])
    def test_bad_sizes(self, bad):
        with pytest.raises(InvalidInputError):
            FunctionTarget(normal_loglik, normal_logprior, **(ROWS | bad))

    def test_the_pymc_twin_is_the_users(self):
        assert FunctionTarget(normal_loglik, normal_logprior, **ROWS, pymc_model=lambda: "model").to_pymc() == "model"
        with pytest.raises(IncompatibleError, match="pymc_model="):
            normal_mean().to_pymc()

    @pytest.mark.needs_jit
    def test_a_decorated_function_is_taken_undecorated(self):
        from numba import njit

        assert terms(FunctionTarget(njit(normal_loglik), njit(normal_logprior), **ROWS), [1.0])[1] == 0.0


def test_the_covariance_of_a_laplace_approximation_is_symmetric():
    with pytest.raises(InvalidInputError, match=r"must be symmetric, found entries that differ by 0\.5"):
        amc.numerics.Laplace(np.zeros(2), np.array([[1.0, 0.0], [0.5, 1.0]]))
