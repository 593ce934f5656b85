"""Functions that users write: numbers that change after they were read, data beyond the end, and what errors say."""

import enum
import math

import numpy as np
import pytest
from numba import njit, types as nb

import approxmcmc as amc
from approxmcmc.engine.compiler import identity
from approxmcmc.engine.compiler.compile import bind, closure
from approxmcmc.engine.compiler.disk_cache import ContentCache
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import CompilationError, InvalidInputError
from approxmcmc.families.user import numerical_derivatives
from approxmcmc.targets.estimated import compile_estimate
from tests.models import logistic, normal_logprior

X = np.random.default_rng(0).normal(size=(30, 2))
WALK = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest())
QUICK = {"draws": 5, "tune": 0, "chains": 1, "random_seed": 1, "progressbar": False}
scale = 1.0  # a global that the functions below read


def _loglik(theta, data, i):
    return -0.5 * ((data[0][i] - theta[0]) / scale) ** 2


def _loglik_eta(eta, y):
    return -0.5 * ((y - eta) / scale) ** 2


def _make_square(function):
    return lambda x: function(x) ** 2


def _logprior(theta):
    return -0.5 * (theta[0] / scale) ** 2


def _terms(target, theta):
    compiled = target.compile()
    return full_terms(compiled.log_terms, np.asarray(theta, float), compiled.data, compiled.n_obs)


def _user(**settings):
    given = {"loglik": _loglik, "logprior": normal_logprior, "data": X[:, 0], "n_obs": 30, "dim": 1} | settings
    return amc.FunctionTarget(given.pop("loglik"), given.pop("logprior"), **given)


class TestNumbersThatChange:
    """A compiled function keeps the numbers that it read; others make another function of it."""

    def test_a_global_of_the_likelihood(self, monkeypatch):
        target = _user()
        before = _terms(target, [0.5])
        monkeypatch.setitem(globals(), "scale", 2.0)
        for late in (target, _user()):
            np.testing.assert_allclose(_terms(late, [0.5]), before / 4.0, rtol=1e-12)

    def test_an_array_in_a_closure(self):
        own = np.array([1.0])

        def loglik(theta, data, i):
            return -0.5 * ((data[0][i] - theta[0]) / own[0]) ** 2

        before = _terms(_user(loglik=loglik), [0.5])
        own[0] = 2.0
        np.testing.assert_allclose(_terms(_user(loglik=loglik), [0.5]), before / 4.0, rtol=1e-12)

    def test_a_global_of_the_prior(self, monkeypatch):
        target, theta = _user(logprior=_logprior), np.array([1.0])
        assert target.compile().log_prior(theta) == -0.5
        monkeypatch.setitem(globals(), "scale", 0.5)
        assert target.compile().log_prior(theta) == -2.0

    def test_a_global_of_a_linear_model_and_of_its_derivatives(self, monkeypatch):
        target = amc.targets.GLMTarget(_loglik_eta, X, X[:, 0])
        before, slope = _terms(target, [0.3, 0.2]), numerical_derivatives(_loglik_eta)(0.3, 1.0)[0]
        monkeypatch.setitem(globals(), "scale", 2.0)
        np.testing.assert_allclose(_terms(target, [0.3, 0.2]), before / 4.0, rtol=1e-12)
        assert numerical_derivatives(_loglik_eta)(0.3, 1.0)[0] == pytest.approx(slope / 4.0)

    def test_a_global_of_a_part_of_a_closure(self, monkeypatch):
        before = closure(_make_square, _loglik_eta)
        assert closure(_make_square, _loglik_eta) is before
        monkeypatch.setitem(globals(), "scale", 2.0)
        assert closure(_make_square, _loglik_eta) is not before

    @pytest.mark.needs_jit
    def test_a_global_of_an_estimator(self, monkeypatch):
        before = compile_estimate(_logprior)
        assert compile_estimate(_logprior) is before
        monkeypatch.setitem(globals(), "scale", 2.0)
        assert compile_estimate(_logprior) is not before

    def test_equal_numbers_are_compiled_once(self):
        made = []

        @cached_by_content(maxsize=4)
        def make(name, functions):
            made.append(name)
            return name

        for _ in range(2):
            make("one", (_loglik, _logprior))
        make("one", (_logprior, _logprior))
        assert made == ["one", "one"]
        make.cache_clear()
        make("one", (_loglik, _logprior))
        assert len(made) == 3

    def test_what_cannot_be_read_is_compiled_anew(self):
        mystery, made = object(), []

        @cached_by_content(maxsize=4)
        def make(function):
            made.append(function)

        def function():
            return mystery

        for _ in range(2):
            make(function)
        assert len(made) == 2

    def test_the_package_s_own_functions_are_not_read(self, monkeypatch):
        """They do not change, and to read them all would take longer than the rest of `sample`."""
        monkeypatch.setattr(identity, "content_id", lambda function: pytest.fail(f"{function} was read"))
        logistic().compile()

    @pytest.mark.parametrize("always_read", [None, [0]])
    @pytest.mark.parametrize("is_compiled", [True, False])
    def test_an_expansion_of_other_data_is_refused(self, is_compiled, always_read):
        rows = X.copy()
        target = amc.targets.LogisticRegression(rows, X[:, 0] > 0.0)
        expanded = amc.ControlVariate(target, at="mode", always_read=always_read)
        if is_compiled:
            expanded.compile()
        rows *= 3.0
        with pytest.raises(InvalidInputError, match="changed after the expansion was made; make a new target"):
            amc.sample(expanded, WALK, **QUICK)

    def test_an_expansion_of_other_numbers_is_refused(self, monkeypatch):
        expanded = amc.ControlVariate(amc.targets.GLMTarget(_loglik_eta, X, X[:, 0]))
        monkeypatch.setitem(globals(), "scale", 2.0)
        with pytest.raises(InvalidInputError, match="changed after the expansion was made"):
            expanded.compile()

    @pytest.mark.needs_jit
    def test_a_helper_with_old_numbers_is_not_kept_on_disk(self, monkeypatch):
        """Numba keeps the numbers of its first call: another process, with the new ones, would be served the old."""
        helper, called_before = njit(_loglik_eta), njit(_loglik_eta)
        called_before(0.0, 1.0)

        def kernel_of(helper):
            return bind(_make_square, lambda x: helper(x, 2.0), signature=nb.float64(nb.float64))

        assert isinstance(kernel_of(helper)._cache, ContentCache)
        assert not isinstance(kernel_of(called_before)._cache, ContentCache)
        monkeypatch.setitem(globals(), "scale", 2.0)
        assert not isinstance(kernel_of(helper)._cache, ContentCache)

    def test_an_enumeration_is_told_by_its_member(self):
        class Kind(enum.Enum):
            ONE = 1
            TWO = 2

        def of(kind):
            return identity.content_id(lambda: kind)

        assert of(Kind.ONE) == of(Kind.ONE) != of(Kind.TWO)


@pytest.mark.needs_jit
class TestEveryDatumIsTried:
    """Kernels check no bounds: what plain Python refuses at one datum would be read from behind the array."""

    def test_a_neighbour_beyond_the_end(self):
        def loglik(theta, data, i):
            return -0.5 * (data[0][i + 1] - theta[0] * data[0][i]) ** 2

        with pytest.raises(CompilationError, match=r"loglik of datum 29 fails .* index 30 is out of bounds"):
            _user(loglik=loglik)

    def test_groups_numbered_from_one(self):
        def loglik(theta, data, i):
            return -0.5 * (data[0][i] - theta[data[1][i]]) ** 2

        groups = 1 + np.arange(30) // 10
        with pytest.raises(CompilationError, match=r"loglik of datum 20 fails .* index 3 is out of bounds"):
            _user(loglik=loglik, data=(X[:, 0], groups), dim=3)
        _user(loglik=loglik, data=(X[:, 0], groups - 1), dim=3)

    def test_a_datum_that_the_function_refuses(self):
        def loglik(theta, data, i):
            if i == 17:
                raise ValueError("no such datum")
            return -0.5 * (data[0][i] - theta[0]) ** 2

        with pytest.raises(CompilationError, match=r"datum 17 fails .* ValueError: no such datum"):
            _user(loglik=loglik)

    def test_a_gap_likewise(self):
        def gap(theta, data, i):
            return abs(data[0][i + 1])

        with pytest.raises(CompilationError, match="gap of datum 29"):
            amc.targets.BoundedLikelihood(_user(), gap, lambda theta, sums: 0.0, np.zeros(1))


class TestMessages:
    def test_plain_python_is_told_with_the_line(self):
        def loglik(theta, data, i):
            return theta[0] * unknown  # noqa: F821 (the missing name is what the message must tell)

        with pytest.raises(
            CompilationError, match=r"'unknown' is not defined \(line \d+ of test_user_.*: return theta\[0\] \* unknown"
        ):
            _user(loglik=loglik)

    @pytest.mark.needs_jit
    def test_the_compiler_is_told_with_the_line(self):
        settings = {"scale": 2.0}

        def loglik(theta, data, i):
            return theta[0] * settings["scale"]

        with pytest.raises(CompilationError) as told:
            _user(loglik=loglik)
        assert "'settings'" in str(told.value)
        assert 'test_user_functions.py: return theta[0] * settings["scale"])' in str(told.value)
        assert "Failed in nopython" not in str(told.value)

    @pytest.mark.needs_jit
    def test_a_plain_helper_is_to_be_decorated(self):
        def helper(x):
            return x * x

        with pytest.raises(CompilationError, match=r"decorate functions that it calls by numba\.njit"):
            _user(loglik=lambda theta, data, i: helper(theta[0]))

    @pytest.mark.needs_jit
    def test_random_numbers_are_found(self):
        with pytest.raises(CompilationError, match="look for random numbers"):
            # The global generator is what the check must find.
            _user(loglik=lambda theta, data, i: theta[0] + np.random.normal())  # noqa: NPY002

    def test_methods_are_refused(self):
        class Model:
            def loglik(self, theta, data, i):
                return 0.0

        with pytest.raises(InvalidInputError, match=r"plain Python function \(def or lambda\), found method"):
            _user(loglik=Model().loglik)

    @pytest.mark.needs_jit
    def test_a_check_warns_of_nothing(self):
        """-inf by a division by 0 is a legal term, and NumPy's warning would be an error here."""
        assert _terms(_user(loglik=lambda theta, data, i: -1.0 / (theta[0] - 0.1) ** 2), [0.1])[0] == -math.inf
