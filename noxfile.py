# /// script
# dependencies = ["nox[uv]>=2025.10.14"]
# ///
"""Every task of the project as a session: ``python3 -m nox -s NAME``, and ``python3 -m nox -l`` lists them.

A session builds its own environment from ``uv.lock``. It names the Python that it needs; an interpreter that is
installed but not active (pyenv, asdf, mise) is found, and one that is missing is an error, never a silent skip.
"""

import argparse
import math
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import nox

PYTHONS = ["3.12", "3.13"]
MAIN = "3.13"
LATEST = "3.14"  # in a separate session, so that the tests run without it

nox.needs_version = ">=2025.10.14"  # reads the script header above
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests"]

# Timings compare samplers, and several processes share the cores: no library may start threads of its own.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
# Kept bytecode, also where the user's shell turns it off: without it each process that a test starts compiles some
# 1500 modules of ArviZ, SciPy and others again, for ten seconds.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}


def _reveal_interpreters() -> None:
    """Put the Pythons of pyenv, asdf and mise that are installed but not active on the PATH."""
    home = Path.home()
    roots = [
        Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions",
        home / ".asdf/installs/python",
        home / ".local/share/mise/installs/python",
    ]
    found = [
        str(python.parent)
        for version in [*PYTHONS, LATEST]
        for root in roots
        for python in sorted(root.glob(f"{version}*/bin/python{version}"))[-1:]
    ]
    os.environ["PATH"] = os.pathsep.join([*found, os.environ.get("PATH", "")])


_reveal_interpreters()


def _install(session: nox.Session, *selection: str) -> None:
    """Install the package with its locked dependencies, and the selected groups and extras (``--group test``)."""
    session.run_install(
        "uv",
        "sync",
        "--locked",
        "--no-default-groups",
        "--compile-bytecode",  # as pip does: else the first process of each session compiles some 1500 modules
        *selection,
        f"--python={session.virtualenv.location}",
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location},
    )


# What runs without compilation: the unit layer, equivalences, the files of planted bugs, each of which would be another
# chain to compile, and pages whose chains are compiled elsewhere.
PLAIN = [
    "tests/unit",
    "tests/equivalence",
    "tests/contracts/test_trace_page.py",
    "tests/faults/test_damaged_files.py",
    "tests/oracle/test_annealed.py::TestChains",
    "tests/oracle/test_barker.py",
    "tests/oracle/test_bias.py",
    "tests/oracle/test_control_variate.py",
    "tests/oracle/test_influential_rows.py::test_a_category_of_zeros_is_a_wall_of_overdispersed_counts_and_the_posterior_stays",
    "tests/oracle/test_influential_rows.py::test_gradients_add_up_likewise",
    "tests/oracle/test_influential_rows.py::test_prior_and_terms_add_up_to_the_same_posterior_whatever_rows_are_always_read",
    "tests/oracle/test_couplings.py",
    "tests/oracle/test_exact_subsampling.py",
    "tests/oracle/test_exchange_textbook.py",
    "tests/oracle/test_followed.py",
    "tests/oracle/test_gibbs.py",
    "tests/oracle/test_hamiltonian_trajectories.py",
    "tests/oracle/test_langevin.py",
    "tests/oracle/test_poisson_gibbs.py",
    "tests/oracle/test_slice.py",
    "tests/oracle/test_stochastic_gradient_zigzag.py",
    "tests/oracle/test_textbook.py",
    "tests/random_models",
    "tests/studies/test_adding_a_sampler.py",
    "tests/studies/test_cli.py::test_warm_samples_each_example_and_says_what_it_compiled",
    "tests/studies/test_docs.py::test_the_code_of_the_page_on_biases_runs",
    "tests/studies/test_real_data.py::test_a_sampler_in_the_metric_of_its_target_is_that_sampler",
]

UNMARKED = "not statistical and not bench and not faults"
COMPILED = "tests/oracle/test_textbook.py"  # compares with NumPy; the main Python compiles every family of samplers

# What `tests` runs, in two processes: folders without compilation; and one chain of each kind of kernel and studies,
# compiled. The latter are named by file: to collect all tests of their folders takes ten processor seconds.
SHORT = f"{UNMARKED} and not thorough"
SHORT_PLAIN = ["tests/contracts", "tests/oracle", "tests/unit"]
SHORT_COMPILED = [
    "tests/oracle/test_exact_subsampling.py",
    "tests/oracle/test_exchange_textbook.py",
    "tests/oracle/test_firefly.py",
    "tests/oracle/test_gibbs.py",
    "tests/oracle/test_langevin.py",
    "tests/oracle/test_pdmp.py",
    "tests/oracle/test_slice.py",
    "tests/oracle/test_textbook.py",
    "tests/studies/test_cli.py",
    "tests/studies/test_discrete.py",
    "tests/studies/test_docs.py",
    "tests/studies/test_estimands.py",
    "tests/studies/test_plan.py",
    "tests/studies/test_publish.py",
    "tests/studies/test_run.py",
    "tests/studies/test_store.py",
    "tests/unit/engine/test_callees.py",
    "tests/unit/engine/test_engine.py",
]


def _pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    """Run pytest in two processes; a test file stays in one of them, so that its kernels are compiled once."""
    options = ["-n", "2", "--dist", "loadfile"]
    session.run("python", "-m", "pytest", *options, *arguments, env={**ONE_THREAD, **BYTECODE, **environment})


def _pytest_alone(session: nox.Session, *arguments: str, stdout: IO[str] | None = None, **environment: str) -> None:
    """Run pytest in one process: each worker of two would collect all tests, 25 processor seconds in `tests`."""
    command = ("python", "-m", "pytest", *arguments)
    session.run(*command, env={**ONE_THREAD, **BYTECODE, **environment}, stdout=stdout, stderr=subprocess.STDOUT)


def _pytest_uncompiled(session: nox.Session) -> None:
    """Run the tests that need no compilation, without it: there a wrong index raises."""
    random_models = "tests/random_models"  # one file of many minutes: its tests are spread over the processes
    others = [path for path in PLAIN if path != random_models]
    _pytest(session, "-m", UNMARKED, *others, NUMBA_DISABLE_JIT="1")
    _pytest(session, "--dist", "load", "-m", UNMARKED, random_models, NUMBA_DISABLE_JIT="1")


@nox.session(python=MAIN)
def reproduce(session: nox.Session) -> None:
    """Run a study and write its report: ``-- STUDY --preset PRESET``; by default the quick preset of the MNIST study.

    STUDY is a file in `studies`, without its ending; ``approxmcmc list`` shows the presets. Cells that are in
    the store, `results` or the one named by ``--store``, are not run again. Two cells run at a time where there are
    two cores: that halves the minutes, and makes a step 1 to 8 % longer; ``--jobs 1`` runs one. Further options go to
    ``approxmcmc run``. Data come from the folder named by APPROXMCMC_DATA_DIR, from the user's cache or from OpenML;
    with none of them the MNIST study runs on a synthetic stand-in, and the report says so.
    """
    parser = argparse.ArgumentParser(prog="nox -s reproduce --", add_help=False)
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--store", default="results")
    parser.add_argument("--jobs", default=str(min(2, os.cpu_count() or 1)))
    names = [argument for argument in session.posargs[:1] if not argument.startswith("-")]
    options, others = parser.parse_known_args(session.posargs[len(names) :])
    _install(session, "--extra", "studies", *(["--extra", "foreign"] if names else []))  # some studies run rivals
    [name] = names or ["austerity_mnist"]
    study = [f"studies/{name}", "--preset", options.preset, "--store", options.store]
    try:
        session.run("approxmcmc", "run", *study, "--jobs", options.jobs, *others, env=ONE_THREAD)
    finally:  # a failed cell or an interrupt leaves finished cells, and the report counts both
        session.run("approxmcmc", "report", *study, env=ONE_THREAD)
        page = max(Path(options.store).glob("**/index.html"), key=lambda path: path.stat().st_mtime)
        session.log(f"report: {page.resolve()}")


@nox.session(python=MAIN)
def tests(session: nox.Session) -> None:
    """Run one check of each thing, in some minutes: what a contributor runs before a commit.

    These are contracts, unit and oracle tests without the mark `thorough`, without compilation; and unit, oracle and
    study tests marked `core`, compiled. One process runs the former, and another the latter, whose output is shown when
    it ends: each further process would import all libraries again, for ten seconds. Options after ``--`` go to pytest
    and replace these choices.
    """
    _install(session, "--extra", "studies", "--group", "test")
    if session.posargs:
        _pytest(session, *session.posargs)
        return
    output = Path(session.create_tmp(), "compiled.txt")
    with output.open("w", encoding="utf-8") as shown_later, ThreadPoolExecutor(1) as other:
        compiled = other.submit(_pytest_alone, session, "-m", f"core and {SHORT}", *SHORT_COMPILED, stdout=shown_later)
        try:
            _pytest_alone(session, "-m", SHORT, *SHORT_PLAIN, NUMBA_DISABLE_JIT="1")
        finally:
            failure = compiled.exception()
            session.log(f"compiled:\n{output.read_text(encoding='utf-8', errors='replace')}")
    if failure:
        raise failure


@nox.session(python=PYTHONS, name="tests-all")
def tests_all(session: nox.Session) -> None:
    """Run all tests: on the main Python all but the marked layers, on the other those that need no compilation.

    The latter are the unit layer, equivalences and planted bugs. Those marked `recompiles`, which is most of the unit
    layer, run on the other Python only. A few chains are compiled there too. Options after ``--`` go to pytest and
    replace these choices.
    """
    _install(session, "--extra", "studies", "--group", "test")
    if session.posargs:
        _pytest(session, *session.posargs)
    elif session.python != MAIN:
        _pytest_uncompiled(session)
        _pytest(session, COMPILED)
    else:
        _pytest(session)


MINUTES = Path("docs/minutes.toml")
README = Path("README.md")
SAID = re.compile(r"(they take )\d+(\s+and )\d+(\s+minutes after the installation)")
HEAD = """\
# README's commands in an empty home: minutes on the clock, minutes of processor, cores; without the installation.
# Written by `nox -s minutes`; tests/contracts/test_minutes.py holds README to it.
"""


def _processor_seconds() -> float:
    """Return the processor seconds of all processes that this one has started and that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


@nox.session(venv_backend="none")
def minutes(session: nox.Session) -> None:
    """Time README's commands in an empty home, and write docs/minutes.toml and README; ``-- tests`` times one of them.

    On a quiet machine; without the installation, whose minutes depend on the network.
    """
    table = tomllib.loads(MINUTES.read_text(encoding="utf-8"))
    folder = Path(session.create_tmp()).resolve()
    kept = {"UV_CACHE_DIR": ".cache/uv", "PYENV_ROOT": ".pyenv"}  # downloads, and interpreters
    for name in session.posargs or list(table):
        home = folder / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        environment = {variable: os.environ.get(variable, str(Path.home() / path)) for variable, path in kept.items()}
        environment |= {"HOME": str(home), "APPROXMCMC_CACHE_DIR": str(home / "cache")}
        command = [sys.executable, "-m", "nox", "--envdir", str(home / "environments"), "-s", name]
        session.run(*command, "--install-only", env=environment, external=True)
        started, spent = time.perf_counter(), _processor_seconds()
        results = ["--", "--store", str(home / "results")] if name == "reproduce" else []
        session.run(*command, "-R", *results, env=environment, external=True)
        wall, cpu = time.perf_counter() - started, _processor_seconds() - spent
        table[name] = {"wall": round(wall / 60, 1), "cpu": round(cpu / 60, 1), "cores": os.cpu_count() or 1}
        session.log(f"{name}: {table[name]}")
    rows = [(name, ", ".join(f"{key} = {value}" for key, value in row.items())) for name, row in table.items()]
    MINUTES.write_text(HEAD + "".join(f"{name} = {{ {row} }}\n" for name, row in rows), encoding="utf-8")
    reproduce_minutes, test_minutes = (math.ceil(table[name]["wall"]) for name in ("reproduce", "tests"))
    readme = README.read_text(encoding="utf-8")
    README.write_text(SAID.sub(rf"\g<1>{reproduce_minutes}\g<2>{test_minutes}\g<3>", readme), encoding="utf-8")


@nox.session(python=LATEST)
def tests_314(session: nox.Session) -> None:
    """Run the tests, all but the marked layers, on the newest Python, with and without compilation."""
    _install(session, "--extra", "studies", "--group", "test")
    _pytest(session, *session.posargs)
    if not session.posargs:
        _pytest_uncompiled(session)


@nox.session(python=MAIN)
def lint(session: nox.Session) -> None:
    """Check style and format; ``-- --fix`` repairs what can be repaired."""
    _install(session, "--only-group", "lint")
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", *([] if "--fix" in session.posargs else ["--check"]))


@nox.session(python=MAIN)
def types(session: nox.Session) -> None:
    """Check the types of the package, of what studies share, and of this file."""
    _install(session, "--extra", "studies", "--group", "lint")
    session.run("mypy", *session.posargs)


@nox.session(python=MAIN)
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error. Tutorials and gallery run where their script has changed."""
    _install(session, "--extra", "studies", "--group", "docs")
    shutil.rmtree("docs/reference", ignore_errors=True)  # pages of names that are gone
    session.run(
        "sphinx-build",
        "--fail-on-warning",
        "--keep-going",
        "-E",
        "docs",
        "docs/_build/html",
        *session.posargs,
        env=ONE_THREAD,
    )
    session.log(f"documentation: {Path('docs/_build/html/index.html').resolve()}")


@nox.session(python=MAIN)
def publish(session: nox.Session) -> None:
    """Write the shipped table and texts of a study from its store, by default those of the tall-data study.

    ``-- studies/NAME --preset published --store DIR`` names another; what is missing in the store is not run.
    """
    _install(session, "--extra", "studies", "--extra", "foreign")
    study = session.posargs or ["studies/tall_data", "--preset", "published"]
    session.run("approxmcmc", "publish", *study, env=ONE_THREAD)


@nox.session(python=MAIN)
def statistical(session: nox.Session) -> None:
    """Run the statistical tests, and those that compile much, with a fresh seed; ``-- --seed=NUMBER`` repeats a run.

    Those of random models run without compilation.
    """
    _install(session, "--extra", "studies", "--group", "test")
    given = any(argument.startswith("--seed") for argument in session.posargs)
    seed = [] if given else [f"--seed={secrets.randbits(32)}"]
    _pytest(session, "-m", "statistical or recompiles", *seed, *session.posargs)
    if all(argument.startswith("--seed") for argument in session.posargs):
        random_models = ["--dist", "load", "-m", "statistical", "tests/random_models"]
        _pytest(session, *random_models, *seed, *session.posargs, NUMBA_DISABLE_JIT="1")


@nox.session(python=MAIN)
def faults(session: nox.Session) -> None:
    """Kill runs and studies, unplug hosts, damage every kind of file, and put odd cases to the public functions.

    Uncompiled, but for faults of compiled kernels, which a run with options leaves out. The hosts are network
    namespaces, for which this must be root: else their tests are skipped, and the end of the session says so. The seed
    is fresh, and is printed; ``-- --seed=NUMBER`` repeats a run.
    """
    _install(session, "--extra", "studies", "--group", "test")
    given = any(argument.startswith("--seed") for argument in session.posargs)
    seed = [] if given else [f"--seed={secrets.randbits(32)}"]
    _pytest(session, "-m", "faults", "-s", "-rs", *seed, *session.posargs, NUMBA_DISABLE_JIT="1")
    if not session.posargs:
        _pytest(session, "-m", "faults and needs_jit", "-s", "-rs", *seed, "tests/faults")


@nox.session(python=MAIN)
def mutants(session: nox.Session) -> None:
    """Change the kernels in one place at a time, and see that their tests fail; two hours; the next run resumes.

    Ten changes of each module. Options after ``--``: modules of tests/mutants/modules.toml, ``--sample``, ``--hours``.
    """
    _install(session, "--extra", "studies", "--group", "mutants")
    environment = {**ONE_THREAD, **BYTECODE, "NUMBA_DISABLE_JIT": "1", "MPLBACKEND": "Agg"}
    session.run("python", "-m", "tests.mutants.run", *session.posargs, env=environment)


@nox.session(python=MAIN)
def bench(session: nox.Session) -> None:
    """Run the benchmarks of tests/bench one after another, and show their tables."""
    _install(session, "--extra", "studies", "--group", "bench")
    session.run("python", "-m", "pytest", "-m", "bench", "-s", "tests/bench", *session.posargs, env=ONE_THREAD)


@nox.session(python=MAIN)
def evidence(session: nox.Session) -> None:
    """Draw every number that the documentation shows, one process at a time; ``-- --list`` shows pieces and minutes.

    ``-- --stale`` draws what is older than the code that draws it, ``-- NAME ...`` some pieces; without options all of
    them, in more than a day. An interrupted run goes on where it stopped. On a still machine.
    """
    _install(session, "--extra", "studies", "--extra", "foreign", "--group", "test")
    environment = {**ONE_THREAD, **BYTECODE, "PYTHON_OF_NOX": sys.executable}
    session.run("python", "-m", "studies.evidence", *session.posargs, env=environment)


@nox.session(python=MAIN)
def race(session: nox.Session) -> None:
    """Race exact steps, every lever of the library, NumPy and other libraries, interleaved in one process."""
    _install(session, "--extra", "studies", "--extra", "foreign", "--group", "test")
    options = session.posargs or ["--preset", "quick", "--out", "results/race"]
    session.run("python", "-m", "studies.race", "--peers", *options, env=ONE_THREAD)
    session.run("python", "-m", "studies.race.answer", env=ONE_THREAD)
    session.run("python", "-m", "pytest", "-m", "bench", "-s", "tests/bench/test_sgld_speed.py", env=ONE_THREAD)


@nox.session(python=MAIN, reuse_venv=False)
def package(session: nox.Session) -> None:
    """Build wheel and sdist, install the wheel where nothing else is, and run `tests/package/smoke.py` on it."""
    dist = Path("dist").resolve()
    shutil.rmtree(dist, ignore_errors=True)
    seconds = {"build": _timed(session, "uv", "build", "--out-dir", str(dist), external=True)}
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    python = f"--python={session.virtualenv.location}"
    seconds["install"] = _timed(session, "uv", "pip", "install", python, str(wheel), external=True)
    smoke, folder = Path("tests/package/smoke.py").resolve(), session.create_tmp()
    shutil.rmtree(Path(folder, "cache"), ignore_errors=True)
    with session.chdir(folder):  # away from the sources, which Python would import instead
        for run in ("first run", "second run"):  # the first compiles its kernels
            seconds[run] = _timed(session, "python", "-I", str(smoke), APPROXMCMC_CACHE_DIR=f"{folder}/cache")
    for path in (wheel, sdist):
        session.log(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    session.log("; ".join(f"{name}: {value:.1f} s" for name, value in seconds.items()))


@nox.session(python=[*PYTHONS, LATEST])
def kernels(session: nox.Session) -> None:
    """Build a wheel that brings compiled kernels, for each Python, on Linux with an x86-64 processor."""
    _install(session)
    folder = Path(session.create_tmp(), "kernels")
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "tests.package.kernels", str(folder), env={**ONE_THREAD, "PYTHONPATH": "."})
    build = ["uv", "build", "--wheel", "--out-dir", "dist", f"--python={session.virtualenv.location}"]
    session.run(*build, external=True, env={"APPROXMCMC_KERNELS": str(folder.resolve())})


def _timed(session: nox.Session, *command: str, external: bool = False, **environment: str) -> float:
    """Run a command and return the seconds that it took."""
    started = time.perf_counter()
    session.run(*command, external=external, env=environment)
    return time.perf_counter() - started


@nox.session(python=MAIN)
@nox.parametrize("end", ["oldest", "newest"])
def pymc_versions(session: nox.Session, end: str) -> None:
    """Run the tests of PyMC models at both ends of the versions of PyMC, PyTensor and numba that are admitted."""
    resolution = {"oldest": "lowest-direct", "newest": "highest"}[end]
    python = f"--python={session.virtualenv.location}"
    session.run_install(
        "uv", "pip", "install", python, "--upgrade", f"--resolution={resolution}", "--editable=.", "--group=test"
    )
    session.run(
        "python", "-c", "import numba, pymc, pytensor; print(pymc.__version__, pytensor.__version__, numba.__version__)"
    )
    files = ["tests/unit/interop/test_pymc.py", "tests/statistical/test_pymc.py"]
    own_folder = {"PYTENSOR_FLAGS": f"base_compiledir={session.create_tmp()}"}  # two versions in one folder warn
    environment = {**ONE_THREAD, **own_folder}
    session.run("python", "-m", "pytest", "-m", "", "-k", "not nuts", *files, *session.posargs, env=environment)


if __name__ == "__main__":
    nox.main()
