"""Compiled code: identity, disk cache, numerics, moments, data order, streams."""

import collections
import enum
import functools
import importlib
import itertools
import math
import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import UnknownContentError, content_id
from approxmcmc.engine.numerics import log, log1mexp, log_sigmoid, softplus
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.errors import InvalidInputError

REPOSITORY = Path(__file__).parents[3]


class TestIdentity:
    def test_equal_code_has_equal_identity_and_an_edit_changes_it(self):
        def make(constant):
            scope = {}
            exec(f"def callee(x):\n    return x * {constant}\n\ndef caller(x):\n    return callee(x) + 1", scope)
            return scope["caller"]

        assert content_id(make(2)) == content_id(make(2))
        assert content_id(make(2)) != content_id(make(3))

    def test_it_follows_jitted_callees_closures_defaults_and_arrays(self):
        def with_closure(value):
            return lambda x: x + value

        assert content_id(with_closure(1)) != content_id(with_closure(2))
        assert content_id(with_closure(np.zeros(2))) != content_id(with_closure(np.ones(2)))

        def with_default(default):
            def function(x, y=default):
                return x + y

            return function

        assert content_id(with_default(1)) != content_id(with_default(2))

        def calling(inner):
            jitted = compiled(inner)
            return lambda x: jitted(x) + 1

        assert content_id(calling(lambda x: x + 1)) != content_id(calling(lambda x: x + 2))

    def test_it_looks_into_cached_functions(self):
        def make(constant):
            cached = functools.cache(lambda: constant)
            return lambda x: x + cached()

        assert content_id(make(1)) == content_id(make(1))
        assert content_id(make(1)) != content_id(make(2))

    def test_one_object_under_several_names_is_told_from_another(self):
        """Three roles, two parts: which part plays two of the roles is what the kernel is."""

        def made(**roles):
            scope = dict(roles)
            exec("def caller(x):\n    return a(x) + b(x) * c(x)", scope)
            return content_id(scope["caller"])

        def one(x):
            return x

        def other(x):
            return 2 * x

        assert len({made(a=one, b=other, c=one), made(a=one, b=other, c=other), made(a=one, b=one, c=other)}) == 3
        assert made(a=one, b=other, c=one) == made(a=one, b=other, c=one)

    def test_it_follows_submodules_and_members_of_enums(self):
        def made(constant):
            package, module = types.ModuleType("package"), types.ModuleType("package.module")
            package.module, module.package, module.CONSTANT = module, package, constant  # they know each other
            scope = {"package": package}
            exec(
                "def caller(x):\n    return x * package.module.CONSTANT + package.module.package.module.CONSTANT", scope
            )
            return content_id(scope["caller"])

        assert made(2.0) == made(2.0)
        assert made(2.0) != made(3.0)

        def with_member(value):
            place = enum.IntEnum("place", {"SCALE": value})
            return lambda theta: theta[place.SCALE]

        assert content_id(with_member(1)) == content_id(with_member(1))
        assert content_id(with_member(1)) != content_id(with_member(2))

    def test_docstrings_and_comments_do_not_count(self):
        def one(x):
            """Say one thing."""
            return x

        def other(x):
            """Say another thing."""
            return x

        assert content_id(one) == content_id(other)
        assert content_id(lambda x: x["a"]) != content_id(lambda x: x["b"])

    def test_what_cannot_be_hashed_is_refused(self):
        with pytest.raises(UnknownContentError):
            content_id(lambda x: itertools.count() is UNHASHABLE)


UNHASHABLE = object()

SCRIPT = """
import numpy as np, sys
sys.path.insert(0, {folder!r})
import approxmcmc as amc
import model
target = amc.FunctionTarget(model.loglik, model.logprior, data=np.arange(20.0), n_obs=20, dim=1)
compiled = target.compile()
out = np.empty(20)
compiled.log_terms(np.ones(1), compiled.data, np.arange(20), 0, 20, out)
print(out[3], compiled.log_prior(np.ones(1)))
"""


@pytest.mark.needs_jit
def test_the_disk_cache_never_serves_stale_code(tmp_path):
    """Edit a callee in another file than the user's function; numba's own cache would return the old result."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "model.py").write_text(
        "from helper import scale\n\ndef loglik(theta, data, i):\n    return scale(data[0][i]) * theta[0]\n\n"
        "def logprior(theta):\n    return 0.0 * theta[0]\n"
    )

    def run(constant):
        (folder / "helper.py").write_text(
            f"from numba import njit\n\n@njit\ndef scale(x):\n    return {constant} * x\n"
        )
        stamp = 1_700_000_000  # the same time stamp and size for every edit: only the content tells
        os.utime(folder / "helper.py", (stamp, stamp))
        environment = {
            **os.environ,
            "APPROXMCMC_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        script = SCRIPT.format(folder=str(folder))
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        files = {path.name for path in (tmp_path / "cache").rglob("*.nbc")}
        return float(done.stdout.split()[0]), files

    first, files = run(2.0)
    assert first == 6.0
    second, more = run(5.0)
    assert second == 15.0
    anew = sorted(name.partition("-")[0] for name in more - files)
    assert files < more and anew == ["log_terms", "loglik", "visit"]  # what reads the helper; not the prior
    again, same = run(2.0)
    assert again == 6.0
    assert same == more  # the undone edit found its old file


MODULE = """
def loglik(theta, data, i):
    if theta[0] > 9.0:
        raise ValueError("far")
    return data[0][i] * theta[0]

def logprior(theta):
    return 0.0 * theta[0]
"""
TWO_MODULES = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np, approxmcmc as amc
from {module} import loglik, logprior
compiled = amc.FunctionTarget(loglik, logprior, data=np.arange(20.0), n_obs=20, dim=1).compile()
out = np.empty(20)
compiled.log_terms(np.ones(1), compiled.data, np.arange(20), 0, 20, out)
print(out[3] + compiled.log_prior(np.ones(1)))
"""


@pytest.mark.needs_jit
def test_the_disk_cache_never_imports_the_module_that_compiled_first(tmp_path):
    """Equal functions of two modules share a file, and the first module may be gone, or a script that does things."""
    environment = {**os.environ, "APPROXMCMC_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(REPOSITORY)}

    def run(module):
        script = TWO_MODULES.format(folder=str(tmp_path), module=module)
        command = [sys.executable, "-B", "-W", "error::UserWarning", "-c", script]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return float(done.stdout), {path.name for path in (tmp_path / "cache").rglob("*.nbc")}

    (tmp_path / "first.py").write_text(MODULE)
    (tmp_path / "second.py").write_text(MODULE)
    found, files = run("first")
    (tmp_path / "first.py").write_text("raise UserWarning('imported')")
    assert run("second") == (found, files)
    (tmp_path / "first.py").unlink()
    assert run("second") == (found, files)


@pytest.mark.needs_jit
@pytest.mark.core
@pytest.mark.compiles_anew
def test_a_damaged_cache_file_is_compiled_anew(tmp_path, monkeypatch):
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import VECTOR, _compile, kernel

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))

    def doubled(x):
        return 2.0 * x[0]

    signature = nb.float64(VECTOR)
    _compile.cache_clear()
    kernel(doubled, signature)
    (path,) = tmp_path.rglob("*.nbc")
    path.write_bytes(b"not a kernel")
    _compile.cache_clear()
    with pytest.warns(UserWarning, match="could not be read back"):
        anew = kernel(doubled, signature)
    assert anew(np.full(1, 4.0)) == 8.0
    assert path.stat().st_size > 100


@pytest.mark.needs_jit
def test_a_source_that_was_edited_since_it_was_read_is_not_needed(tmp_path, monkeypatch):
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import kernel

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "edited_since.py"
    source.write_text("def edited(x):\n    return x + 41.0\n")
    function = importlib.import_module("edited_since").edited
    source.write_text("def edited(x):\n    '''An end is missing\n")
    assert kernel(function, nb.float64(nb.float64))(1.0) == 42.0
    assert len(list(tmp_path.rglob("edited-*.nbc"))) == 1


class Ahead(NamedTuple):
    low: float
    high: float


class Behind(NamedTuple):
    high: float
    low: float


@pytest.mark.needs_jit
@pytest.mark.core
@pytest.mark.compiles_anew
def test_states_whose_fields_have_another_order_share_no_kernel(tmp_path, monkeypatch):
    """Numba names the type of a named tuple by its class alone, and compiled code reads fields by their places."""
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import _compile, entry_point, kernel, type_of

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    Behind.__name__ = Behind.__qualname__ = "Ahead"

    def width(state):
        return state.high - state.low

    for state in (Ahead(low=1.0, high=4.0), Behind(low=1.0, high=4.0)):
        signature = nb.float64(type_of(state))
        _compile.cache_clear()  # as in a process of its own: the file alone tells
        assert entry_point(kernel(width, signature), signature)(state) == 3.0
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


@pytest.mark.needs_jit
def test_a_function_pointer_is_named_by_the_modules_of_its_states():
    """Machine code that reads one holds its types as a pickle: in a later version whose class has moved it would raise.

    A state that is passed by value is read by its places, whatever module its class comes from.
    """
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import type_of
    from approxmcmc.engine.compiler.type_names import spelled

    def names(module):
        """Return the names of a state and of a pointer, which numba tells from others by name alone while they live."""
        state = type_of(collections.namedtuple("State", "scale", module=module)(1.0))
        pointer = nb.FunctionType(nb.float64(nb.Tuple([nb.int64, state])))
        return spelled(state), spelled(pointer), str(pointer)

    here, there = names("a.b"), names("a.c")
    assert (here[0], here[2]) == (there[0], there[2])
    assert here[1] != there[1]


STATE_OF_A_SCRIPT = """
import dataclasses, warnings
from typing import NamedTuple
import numpy as np, approxmcmc as amc
from approxmcmc.contracts import CompiledProposal, Component, Proposal
from approxmcmc.engine.compiler.compile import compiled
from tests.models import normal_mean

class State(NamedTuple):
    {fields}

@compiled
def propose(rng, state, theta, out, count):
    out[0] = theta[0] + state.scale * rng.standard_normal() + state.shift
    return 0.0

@dataclasses.dataclass(frozen=True, eq=False)
class Walk(Component, Proposal):
    def build_proposal(self, target):
        return CompiledProposal(propose, lambda: State(scale=0.2, shift=0.0))

warnings.simplefilter("ignore", amc.errors.SamplingWarning)  # of a chain without a test
sampler = amc.MetropolisHastings(Walk(), amc.acceptance.AlwaysAccept())
trace = amc.sample(normal_mean(), sampler, draws=20, tune=0, chains=1, random_seed=1, progressbar=False)
print(float(trace.posterior["mu"].sum()))
"""


@pytest.mark.recompiles
@pytest.mark.needs_jit
def test_a_state_of_a_script_is_read_from_the_disk_cache(tmp_path):
    """Its class cannot be imported by another process, which has its own."""
    environment = {
        **os.environ,
        "APPROXMCMC_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
    }

    def run(fields):
        (tmp_path / "script.py").write_text(STATE_OF_A_SCRIPT.format(fields=fields))
        command = [sys.executable, "-B", "-W", "error::UserWarning", str(tmp_path / "script.py")]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return float(done.stdout), {path.name for path in (tmp_path / "cache").rglob("*.nbc")}

    found, files = run("scale: float; shift: float")
    assert run("scale: float; shift: float") == (found, files)
    swapped, more = run("shift: float; scale: float")
    assert swapped == found
    assert len(more) == len(files) + 1


def test_without_a_home_there_is_no_cache_and_nothing_else_changes(monkeypatch):
    """As in a container whose user is a bare number: kernels are compiled, downloads say what to name."""
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import VECTOR, kernel
    from approxmcmc.engine.files.paths import user_cache

    for name in ("APPROXMCMC_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(FileNotFoundError, match="APPROXMCMC_CACHE_DIR"):
        user_cache("kernels")
    assert kernel(lambda x: 3.0 * x[0], nb.float64(VECTOR))(np.full(1, 4.0)) == 12.0
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    announced = Path.cwd() / "announced"
    monkeypatch.setenv(variable, str(announced))
    if sys.platform != "darwin":
        assert user_cache("kernels") == announced / "approxmcmc" / "kernels"
    monkeypatch.setenv(variable, "announced")  # a relative path is ignored
    with pytest.raises(FileNotFoundError, match="APPROXMCMC_CACHE_DIR"):
        user_cache("kernels")


def test_a_folder_of_caches_may_begin_with_the_home(monkeypatch):
    from approxmcmc.engine.files.paths import user_cache

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", "~/caches")
    assert user_cache("kernels") == Path.home() / "caches" / "kernels"


@pytest.mark.needs_jit
@pytest.mark.parametrize("damage", ["truncated", "a flipped bit", "another function's file", "empty"])
def test_a_damaged_or_exchanged_kernel_is_compiled_anew(tmp_path, monkeypatch, damage):
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import VECTOR, _compile, kernel

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    signature = nb.float64(VECTOR)
    for factor in (2.0, 3.0):
        _compile.cache_clear()
        kernel(_scaling(factor), signature)
        if factor == 2.0:
            (path,) = tmp_path.rglob("*.nbc")
    (other,) = set(tmp_path.rglob("*.nbc")) - {path}
    good = path.read_bytes()
    middle = len(good) // 2
    path.write_bytes(
        {
            "truncated": good[:middle],
            "a flipped bit": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
            "another function's file": other.read_bytes(),
            "empty": b"",
        }[damage]
    )
    _compile.cache_clear()
    with pytest.warns(UserWarning, match="could not be read back"):
        anew = kernel(_scaling(2.0), signature)
    assert anew(np.full(1, 4.0)) == 8.0
    _compile.cache_clear()
    assert kernel(_scaling(2.0), signature).stats.cache_hits  # it was written again


def _scaling(factor):
    def scaled(x):
        return factor * x[0]

    return scaled


@pytest.mark.needs_jit
def test_a_kernel_with_a_long_name_is_kept(tmp_path, monkeypatch):
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import VECTOR, _compile, kernel

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    function = _scaling(5.0)
    function.__name__ = function.__qualname__ = "ä" * 200
    for hits in (0, 1):
        _compile.cache_clear()
        assert sum(kernel(function, nb.float64(VECTOR)).stats.cache_hits.values()) == hits


class TestNumerics:
    GRID = np.concatenate([np.linspace(-40, 40, 4001), [-800.0, -745.0, 745.0, 800.0, 0.0, -0.0, 1e-300]])

    def test_softplus_and_log_sigmoid(self):
        expected = np.logaddexp(0.0, self.GRID)
        np.testing.assert_allclose([softplus(x) for x in self.GRID], expected, rtol=2e-14, atol=1e-304)
        np.testing.assert_allclose([log_sigmoid(-x) for x in self.GRID], -expected, rtol=2e-14, atol=1e-304)

    @pytest.mark.needs_jit
    def test_they_stay_exact_inside_a_relaxed_kernel(self):
        """A callee without fastmath of its own inherits its caller's, and reassociation would ruin the polynomial."""
        from approxmcmc.engine.terms.batches import linear_batch_kernel

        data = (self.GRID[:, None].copy(), np.zeros(len(self.GRID)))
        kernel, out = linear_batch_kernel(lambda eta, y: softplus(eta), data), np.empty(len(self.GRID))
        kernel(np.ones(1), data, np.arange(len(self.GRID)), 0, len(self.GRID), out)
        np.testing.assert_allclose(out, np.logaddexp(0.0, self.GRID), rtol=2e-14, atol=1e-304)

    @pytest.mark.needs_jit
    def test_log(self):
        grid = np.concatenate([np.geomspace(1e-300, 1e300, 2001), 1.0 + np.linspace(-0.5, 1.0, 1001), [1.0, 2.0]])
        np.testing.assert_allclose([log(x) for x in grid], np.log(grid), rtol=1e-14, atol=1e-16)

    def test_special_values(self):
        assert math.isnan(softplus(math.nan))
        assert math.isnan(log_sigmoid(math.nan))
        assert softplus(math.inf) == math.inf
        assert softplus(-math.inf) < 1e-300
        assert log1mexp(0.0) == -math.inf
        np.testing.assert_allclose(log1mexp(1e-20), math.log(1e-20), rtol=1e-14)
        np.testing.assert_allclose(log1mexp(50.0), -math.exp(-50.0), rtol=1e-12)


def test_moments_agree_with_numpy_whatever_the_batches(rng):
    values = 1e6 + rng.normal(size=1000)  # a large mean: squares would cancel
    state = np.empty(moments.SIZE)
    moments.reset(state)
    for batch in np.split(values, [1, 4, 500, 501]):
        moments.merge(state, batch, len(batch))
    assert state[moments.N] == 1000
    np.testing.assert_allclose(state[moments.MEAN], values.mean(), rtol=1e-15)
    np.testing.assert_allclose(moments.standard_deviation(state), values.std(ddof=1), rtol=1e-9)
    np.testing.assert_allclose(moments.largest_deviation(state), np.abs(values - values.mean()).max(), rtol=1e-6)


@pytest.mark.thorough
def test_subsets_are_simple_random_samples(seed):
    """All 6 ordered pairs of 3 data are equally likely, whatever order the last decision left behind.

    60 000 draws; chi-square with 5 degrees of freedom, false-fail rate 1e-6 at 38.2. Drawing with replacement puts a
    third of the draws on pairs that cannot occur.
    """
    rng, order, tally = np.random.default_rng(seed), np.arange(3), {}
    for _ in range(60_000):
        draw_next(rng, order, 0, 1)
        draw_next(rng, order, 1, 2)
        pair = tuple(order[:2].tolist())
        tally[pair] = tally.get(pair, 0) + 1
    assert sorted(order.tolist()) == [0, 1, 2]
    assert set(tally) == set(itertools.permutations(range(3), 2))
    counts = np.array(list(tally.values()))
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 38.2


class TestStreams:
    def test_chain_k_depends_on_seed_and_k_alone(self):
        few, many = seed_sequences(7, 2)[0], seed_sequences(7, 5)[0]
        for one, other in zip(few, many, strict=False):
            assert streams(one).proposal.random() == streams(other).proposal.random()

    def test_a_sequence_gives_each_chain_its_own_entry(self):
        one, other = seed_sequences([3, 4], 2)[0], seed_sequences([4, 3], 2)[0]
        assert streams(one[0]).order.random() == streams(other[1]).order.random()

    def test_streams_of_one_chain_differ(self):
        own = streams(seed_sequences(7, 1)[0][0])
        assert len({stream.random() for stream in own}) == len(own)

    def test_none_stores_entropy_that_repeats_the_run(self):
        sequences, seed = seed_sequences(None, 1)
        assert streams(sequences[0]).uniform.random() == streams(seed_sequences(seed, 1)[0][0]).uniform.random()

    def test_a_generator_gives_one_integer(self):
        _, seed = seed_sequences(np.random.default_rng(5), 3)
        assert seed == seed_sequences(np.random.default_rng(5), 2)[1]

    @pytest.mark.parametrize("bad", [1.5, "7", -1, [1, 2, 3], True])
    def test_other_seeds_are_refused(self, bad):
        with pytest.raises(InvalidInputError, match="random_seed"):
            seed_sequences(bad, 2)


@pytest.mark.needs_jit
def test_the_clock_in_kernels_is_perf_counter():
    script = textwrap.dedent("""
        import time
        from approxmcmc.engine.compiler.clock import TICKS_IN_KERNELS, nanoseconds
        nanoseconds()
        before, inside, after = time.perf_counter_ns(), nanoseconds(), time.perf_counter_ns()
        assert not TICKS_IN_KERNELS or before <= inside <= after, (before, inside, after)
    """)
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
