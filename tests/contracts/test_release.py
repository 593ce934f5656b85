"""What a release promises: one version, sessions that exist, no registry named, no pickle but the known ones."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")  # comes with the extra `studies`

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Assembled here, so that this file does not name them either.
HOSTS = tuple(".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("anaconda", "org")))
CONDA_NAMES = {"matplotlib": "matplotlib-base", "torch": "pytorch"}
PICKLES = {"study/engines.py", "study/processes.py"}  # explained in SECURITY.md


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def published_files():
    """Return what speaks to users and to services; the lock file names where everything came from, as it must."""
    patterns = (
        "*.md",
        "*.toml",
        "*.cff",
        "*.yaml",
        "noxfile.py",
        ".github/**/*.*",
        ".readthedocs.yaml",
        "conda/*",
        "docs/*.*",
    )
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()})


def hosts_in(text):
    return [host for host in HOSTS if host in text]


@pytest.mark.parametrize("path", published_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_registry_is_named(path):
    assert hosts_in(path.read_text(encoding="utf-8")) == []


def test_a_planted_registry_is_found():
    assert hosts_in(f"index-url = https://{HOSTS[0]}/simple") == [HOSTS[0]]


# --- one version ---


def versions():
    changelog = re.search(r"^## (?:Unreleased: )?(\d+\.\d+\.\d+)", text_of("CHANGELOG.md"), flags=re.MULTILINE)
    lock = next(package for package in tomllib.loads(text_of("uv.lock"))["package"] if package["name"] == "approxmcmc")
    return {
        "CHANGELOG.md": changelog and changelog[1],
        "CITATION.cff": yaml.safe_load(text_of("CITATION.cff"))["version"],
        "conda/recipe.yaml": yaml.safe_load(text_of("conda/recipe.yaml"))["context"]["version"],
        "uv.lock": lock["version"],
    }


@pytest.mark.parametrize("name", ["CHANGELOG.md", "CITATION.cff", "conda/recipe.yaml", "uv.lock"])
def test_the_version_is_that_of_the_project(name):
    assert versions()[name] == PROJECT["version"]


def test_authors_and_license_are_those_of_the_citation():
    citation = yaml.safe_load(text_of("CITATION.cff"))
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert citation["license"] == PROJECT["license"]


# --- the recipe ---


def requirement(line):
    """Return name and bounds of a requirement, in pip's form or conda's."""
    name, bounds = re.match(r"([\w.-]+)\s*(.*)", line).groups()
    return name.lower(), bounds


def test_the_recipe_requires_what_the_project_requires():
    run = dict(map(requirement, yaml.safe_load(text_of("conda/recipe.yaml"))["requirements"]["run"]))
    assert run.pop("python") == PROJECT["requires-python"]
    required = dict(map(requirement, PROJECT["dependencies"]))
    assert run == {CONDA_NAMES.get(name, name): bounds for name, bounds in required.items()}


def test_the_recipe_constrains_what_the_extras_name():
    constrained = dict(
        map(requirement, yaml.safe_load(text_of("conda/recipe.yaml"))["requirements"]["run_constraints"])
    )
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    named = {CONDA_NAMES.get(name, name): bounds for name, bounds in map(requirement, extras)}
    named.pop("approxmcmc")
    assert constrained == named


def test_the_recipe_builds_from_this_folder():
    assert yaml.safe_load(text_of("conda/recipe.yaml"))["source"] == {"path": ".."}


# --- sessions and workflows ---


def session_names(function):
    """Yield the name under which nox knows a function, if it is a session: `name` of the decorator, or its own."""
    for mark in function.decorator_list:
        if "nox.session" in ast.unparse(mark):
            options = {option.arg: option.value for option in mark.keywords}
            yield ast.literal_eval(options["name"]) if "name" in options else function.name


def sessions():
    """Return the names of the noxfile's sessions."""
    functions = [node for node in ast.parse(text_of("noxfile.py")).body if isinstance(node, ast.FunctionDef)]
    return {name for function in functions for name in session_names(function)}


def asked_for(workflow):
    """Return the sessions that a workflow calls; a session named by a matrix means every entry of the matrix."""
    found = set()
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        named = [*matrix.get("session", []), *(row["session"] for row in matrix.get("include", []))]
        for called in re.findall(r"nox -s (.+)", "\n".join(step.get("run", "") for step in job["steps"])):
            found |= set(named if "matrix.session" in called else called.split())
    return {re.sub(r"(-3\.\d+)?( -- .*)?$", "", name) for name in found}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_sessions_that_exist(path):
    called = asked_for(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert called
    assert called <= sessions()


def test_contributors_find_every_session():
    rows = set(re.findall(r"^\| `([\w-]+)` \|", text_of("CONTRIBUTING.md"), flags=re.MULTILINE))
    assert sessions() <= rows


def test_only_the_upload_may_sign_and_nothing_is_secret():
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert "secrets." not in text
        for name, job in yaml.safe_load(text)["jobs"].items():
            assert ("id-token" in job.get("permissions", {})) == ((path.stem, name) == ("publish", "publish"))


# --- pickles ---


def reads_pickles(source):
    """Tell whether a file can unpickle."""
    return bool(re.search(r"\b(pickle|dill|joblib)\.(loads?|Unpickler)\b|allow_pickle=True|\bread_pickle\b", source))


def test_pickles_are_read_where_the_policy_says():
    package = ROOT / "approxmcmc"
    paths = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert {name for name, source in paths.items() if reads_pickles(source)} == PICKLES


@pytest.mark.parametrize("source", ["import pickle\npickle.load(f)", "numpy.load(f, allow_pickle=True)"])
def test_a_planted_pickle_is_found(source):
    assert reads_pickles(source)
