"""The code of the pages runs: every block of a page in order, on small data, with few draws.

Uncompiled in seconds, and compiled with the statistical tests. Tutorials and gallery run when the pages are built.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.pyplot import close

import approxmcmc as amc
from approxmcmc.engine.messages import LOGGER
from tests.models import logistic

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = "../README.md"
ELSEWHERE = {  # pages whose code another test runs
    "adding_a_sampler.md": "tests/studies/test_adding_a_sampler.py",
    "bias.md": "tests/studies/test_docs.py",
    "index.md": "tests/studies/test_docs.py",
    "networks.md": "tests/unit/targets/test_jax_target.py",
    "studies.md": "tests/studies/test_docs.py",
}
MALA = "amc.MetropolisHastings(amc.Langevin(0.1), amc.ExactTest())"
FEWER = (
    (r"(amc\.sample\((?!.*tune=).*)draws=", r"\g<1>tune=10, draws="),
    (r"(amc\.sample\(.*)draws=[\d_]+(, thin=\d+)?", r"\g<1>draws=30, progressbar=False"),
    (r"draws=\d[\d_]+", "draws=30"),
    (r"tune=[\d_]+", "tune=10"),
    (r"seconds=[\d_]+", "seconds=0.2"),
    (r"audit_every=[\d_]+", "audit_every=10"),
    (r"batch_size=[\d_]+", "batch_size=10"),
    ("AuxiliaryChain\\(2400", "AuxiliaryChain(50"),
    ("n_auxiliary=50", "n_auxiliary=5"),
    (r"epsilons=\[0, 0.01, 0.1\]", "epsilons=[0, 0.1], draws=30, progressbar=False"),
    (r"grid=np.linspace\(-0.4, 0.8, 61\)", "grid=np.linspace(-0.4, 0.8, 11), draws=0"),
    (r"in \(1, 2, 5, 20\)", "in (1, 2)"),
    (r"contraction\(target, sampler, trace", r"\g<0>, n_pairs=2, steps=[2], replications=20"),
    (r"synthetic_logistic\(20_000, 10\)", "synthetic_logistic(400, 2)"),
    (r"n=20_000, d=5", "n=400, d=5"),
    ("observations=1000", "observations=100"),
    (r"union_members\(\)", "union_members().head(80)"),
    (r"amc\.sample\(member, ", f"amc.sample(member, {MALA}, tune=10, draws=30, "),
    (r"amc\.sample\(target\)\n", f"amc.sample(target, {MALA}, tune=10, draws=30, progressbar=False)\n"),
    (r'Client\("tcp://scheduler:8786"\)', "Client(processes=False, dashboard_address=None)"),
    ("from my_library import MySampler", "from approxmcmc.whole_chains import BlackjaxNUTS as MySampler"),
    (r'tall_target\("covertype"\)', 'tall_target("covertype", "synthetic")'),
)


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)


PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if "_build" not in path.parts)
PAGES = [page for page in PAGES if blocks(page)]


def small(block):
    for pattern, few in FEWER:
        block = re.sub(pattern, few, block)
    return block


def regression():
    target = logistic(120, 2)
    return {"X": target.X, "y": target.y, "target": target, "dim": 2}


def lattice(width=4):
    spins = np.where(np.random.default_rng(1).random((width, width)) < 0.5, -1, 1)
    return {"spins": spins, "lattice": amc.targets.Ising(spins, prior_bounds=(-0.4, 0.8))}


def field():
    log_tables = np.random.default_rng(1).normal(0.0, 0.3, size=(4, 2, 2, 2))
    return {"log_tables": log_tables, "field": amc.targets.BinaryMRF.from_triples(log_tables)}


COMPILED = {  # graphs whose normaliser is enumerated, or which are simulated: minutes in plain Python; models of PyMC
    "hierarchies.md",
    "large_data.md",
    "samplers/doubly_intractable_targets.md",
    "samplers/noisy_monte_carlo.md",
}


def mapped():
    """Return what the page on the order of the data has on disk."""
    target = logistic(120, 2)
    file = np.memmap("X.f64", dtype=np.float64, mode="w+", shape=target.X.shape)
    file[:] = target.X
    file.flush()
    test = amc.SequentialTTest(epsilon=0.05, batch_size=20, order="blocks")
    return {"n": 120, "p": 2, "y": target.y, "proposal": amc.RandomWalk(0.1), "test": test}


def flights():
    """Write what the page on large data has on disk."""
    from pyarrow import parquet, table

    rng, folder = np.random.default_rng(1), Path("flights")
    folder.mkdir()
    columns = {"distance": rng.normal(size=120), "hour": rng.normal(size=120), "late": rng.integers(0, 2, size=120)}
    parquet.write_table(table(columns), folder / "part.parquet", row_group_size=50)
    return {}


def sampled(test=None):
    """Return a run, and draws from elsewhere."""
    target = logistic(120, 2)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.3), test or amc.ExactTest())
    trace = amc.sample(target, sampler, draws=60, tune=10, chains=2, random_seed=1, progressbar=False)
    return {"target": target, "sampler": sampler, "trace": trace, "nutpie_trace": trace}


def bounded():
    """Return fields with matrices, and a run whose decisions are followed."""
    return {**field(), **lattice(), **sampled(amc.SequentialTTest(epsilon=0.1, batch_size=20))}


def network():
    return {"graph": amc.datasets.florentine_business().adjacency}


SCOPES = {
    "bounds.md": bounded,
    "data_order.md": mapped,
    "diagnose.md": sampled,
    "large_data.md": flights,
    "reliability.md": sampled,
    "samplers/doubly_intractable_targets.md": lambda: lattice(14),  # its posterior ends within the grid
    "samplers/gibbs.md": field,
    "samplers/noisy_monte_carlo.md": network,
}


@pytest.mark.thorough
@pytest.mark.recompiles
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")  # of few draws
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # likewise
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.needs_jit] if page in COMPILED else [])
        for page in PAGES
        if page not in ELSEWHERE
    ],
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LOGGER, "level", LOGGER.level)  # a page may set it
    scope = {"amc": amc, "np": np, **SCOPES.get(page, regression)()}
    for block in blocks(page):
        exec(compile(small(block), page, "exec"), scope)
    close("all")


@pytest.mark.statistical  # its gold standard by NUTS takes a minute or two
@pytest.mark.needs_jit
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")  # the walk of its first block is slow
def test_the_code_of_the_readme_runs_as_printed(capsys):
    scope = {}
    for block in blocks(README):
        exec(compile(block, "README.md", "exec"), scope)
    assert "wrong_decision_rate" in capsys.readouterr().out
    assert scope["comparison"].index[0] == "exact"  # as the sentence below that block says
    assert 0.4 < amc.cost_summary(scope["traces"]["epsilon = 0.05"]).loc["all", "data_fraction"] < 0.65
    assert scope["trace"].posterior.sizes["draw"] == 2000
    close("all")


def test_no_page_is_left_out():
    """A page with code runs here, or in the file that names it."""
    for page, test in ELSEWHERE.items():
        assert page in PAGES, f"{page} has no code"
        assert page.removesuffix(".md") in (ROOT / test).read_text(encoding="utf-8"), test
