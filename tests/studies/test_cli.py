"""The command line: verbs, exit codes, and what a user reads."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from approxmcmc import cli
from approxmcmc.cli import verbs, warm
from approxmcmc.engine.compiler.compilations import count_kernel
from approxmcmc.study.json_files import write_json
from approxmcmc.study.load import find_study, load_study, study_files
from tests.studies.toys import quiet_probe, toy_sample

pytestmark = pytest.mark.core

STUDY = '''
"""A toy."""

from tests.studies.toys import ToySampler, toy_study
from approxmcmc.study import knob, vary

study = toy_study(reference="Nobody 2014, figure 1", samplers={samplers})
'''
GOOD = '{"walk": vary(ToySampler, epsilon=knob(0.0, 0.05, 0.2))}'
BAD = '{"walk": vary(ToySampler, fault=knob("", "raises"))}'


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Stand in a folder with ./studies; chains are toys, and a report is a file with one line."""

    def write_report(results, folder):
        page = Path(folder) / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"{int((results.records['status'] == 'done').sum())} done\n")
        return page

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("approxmcmc.api.sample", toy_sample)
    monkeypatch.setattr("approxmcmc.study.run.speed_probe", quiet_probe)
    monkeypatch.setattr("approxmcmc.study.report.content.write_report", write_report)
    (tmp_path / "studies").mkdir()
    declare(tmp_path, "good", GOOD)
    declare(tmp_path, "bad", BAD)
    return tmp_path


def declare(project: Path, name: str, samplers: str) -> None:
    (project / "studies" / f"{name}.py").write_text(STUDY.replace("{samplers}", samplers))


@pytest.fixture
def approxmcmc(project, capsys):
    """Return a function that runs a command and returns exit code, output and errors."""

    def act(*argv: str) -> tuple[int, str, str]:
        try:
            code = cli.main(argv)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return act


# --- finding a study ---


def test_a_study_is_found_by_name_and_by_path(project):
    assert find_study("good") == Path("studies/good.py")
    assert find_study("studies/good") == Path("studies/good.py")
    assert find_study("studies/good.py") == Path("studies/good.py")
    assert [path.stem for path in study_files()] == ["bad", "good"]
    assert load_study(Path("studies/good.py")) is load_study(project / "studies" / "good.py")


def test_a_study_imports_its_neighbours_from_anywhere(project, monkeypatch, tmp_path_factory):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (project / "studies" / "shared").mkdir()
    (project / "studies" / "shared" / "walks.py").write_text(f"from tests.studies.toys import *\nWALKS = {GOOD}")
    declare(project, "neighbour", "WALKS")
    path = project / "studies" / "neighbour.py"
    path.write_text("from studies.shared.walks import WALKS\n" + path.read_text())
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert len(load_study(path).settings()) == 3


def test_an_edited_study_is_read_again(project):
    before = load_study(Path("studies/good.py"))
    declare(project, "good", BAD)
    assert len(load_study(Path("studies/good.py")).settings()) != len(before.settings())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["run", "goud"], "There is no study 'goud'; did you mean 'good'?"),
        (["run", "good", "--preset", "smok"], "did you mean 'smoke'?"),
        (["run", "good", "--engine", "dusk"], "did you mean 'dask'?"),
        (["run", "good", "--only", "epsilo=0"], "did you mean 'epsilon'?"),
        (["rum", "good"], "there is no verb 'rum'; did you mean 'run'?"),
        (["run", "good", "--prset", "smoke"], "unrecognized arguments"),
        (["retry", "good"], "--cell KEY, --failed, --noisy or --stale"),
        (["retry", "good", "--cell", "zz"], "0 cells of the plan"),
        (["verify", "good"], "no finished cell"),
        (["verify", "good", "-n", "0"], "at least 1"),
        (["run", "good", "--jobs", "0"], "at least 1; found 0"),
        (["report", "good"], "no report"),
        (["publish", "good"], "Nothing of toy can be published"),
        (["compare", "a", "b"], "no plan.json"),
        (["why", "0123"], "0 cells below results"),
        ([], "required"),
    ],
)
def test_a_mistake_in_usage_ends_with_code_2_and_says_what_was_meant(approxmcmc, argv, message):
    code, out, err = approxmcmc(*argv)
    assert code == 2
    assert message in err
    assert out == ""


def test_a_file_without_a_study_says_so(approxmcmc, project):
    (project / "studies" / "empty.py").write_text("x = 1\n")
    assert approxmcmc("plan", "empty")[::2] == (
        2,
        "error: empty.py needs a global `study = Study(...)`; found NoneType.\n",
    )
    good = (project / "studies" / "good.py").read_text()
    (project / "studies" / "bad.py").write_text(good + "\nstudy.presets['smoke']['replicates'] = 0\n")
    code, out, _ = approxmcmc("list")
    assert code == 0
    assert "empty  cannot be read" in out
    assert "bad  cannot be read: StudyError" in out
    assert "good  Nobody 2014, figure 1" in out


# --- verbs ---


def test_list_counts_cells_of_every_preset(approxmcmc):
    code, out, _ = approxmcmc("list")
    assert code == 0
    assert re.search(r"good .*\n  smoke +3 cells, 20 draws each\n  paper +6 cells", out)


def test_a_user_without_a_study_gets_one_to_copy(approxmcmc, project):
    for path in study_files():
        path.unlink()
    code, out, _ = approxmcmc("list")
    assert code == 0 and "There is no study in ./studies" in out and "approxmcmc run first" in out
    copied = textwrap.dedent("".join(line for line in out.splitlines(True) if line.startswith("    ") or line == "\n"))
    (project / "studies" / "first.py").write_text(copied)
    code, out, _ = approxmcmc("list")
    assert code == 0 and re.search(r"first .*\n  paper +10 cells", out)
    assert approxmcmc("plan", "first")[0] == 0


def test_the_version_is_shown(approxmcmc):
    assert approxmcmc("--version")[:2] == (0, f"approxmcmc {importlib.metadata.version('approxmcmc')}\n")


def test_plan_shows_cells_and_runs_nothing(approxmcmc, project):
    code, out, _ = approxmcmc("plan", "good")
    assert code == 0
    assert out.splitlines()[0].split() == ["cell", "block", "place", "target", "setting", "seed"]
    assert "toy/paper: 6 of 6 cells" in out
    assert not (project / "results").exists()
    assert "2 of 6 cells" in approxmcmc("plan", "good", "--only", "epsilon=0.2")[1]


def test_run_status_report(approxmcmc, project):
    code, out, err = approxmcmc("run", "good")
    assert (code, err) == (0, "")
    page = Path("results/toy-paper/report/index.html")
    assert out.splitlines()[-2:] == ["toy/paper: 6 done", f"report: {page}"]
    assert page.read_text() == "6 done\n"
    code, out, _ = approxmcmc("status", "good")
    assert code == 0
    assert re.search(r"plain +walk\[epsilon=0\.0\] +2 +2\n", out)
    assert "toy/paper in results/toy-paper: 6 done" in out
    assert approxmcmc("report", "good")[1] == f"report: {page}\n"
    assert "0 to run" in approxmcmc("run", "good", "--no-report")[1]


def test_publish_says_what_it_wrote(approxmcmc, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "approxmcmc.study.report.publish.publish", lambda results, *folders: asked.append(folders) or ("page", "data")
    )
    assert approxmcmc("publish", "good", "--pages", "p") == (0, "published: page\npublished: data\n", "")
    assert asked == [("approxmcmc/study/published_results", "p")]


def test_a_store_elsewhere_and_no_report(approxmcmc, project):
    code, out, _ = approxmcmc("run", "good", "--preset", "smoke", "--store", "else/where", "--no-report")
    assert code == 0
    assert "report" not in out
    records = list((project / "else/where/toy-smoke").rglob("record.json"))
    assert len(records) == 3
    assert json.loads(records[0].read_text())["status"] == "done"


def test_a_failed_cell_gives_code_1_its_story_and_the_way_back(approxmcmc, project):
    code, out, _ = approxmcmc("run", "bad")
    assert code == 1
    assert "toy/paper: 2 done, 2 failed" in out
    assert "report: " in out
    keys = re.findall(r"why: approxmcmc why (\w+)", out)
    assert len(keys) == 2
    code, story, _ = approxmcmc("why", keys[0])
    assert code == 0
    assert "RuntimeError: the toy broke" in story
    assert "toys.py" in story
    again = re.search(r"run it again: approxmcmc (.*)", story).group(1).split()
    assert again[:2] == ["retry", "studies/bad.py"]
    code, out, _ = approxmcmc(*again)
    assert code == 1
    assert "1 to run" in out
    assert "2 to run" in approxmcmc("retry", "bad", "--failed")[1]
    assert approxmcmc("retry", "bad", "--noisy") == (0, "No cell has that status.\n", "")
    assert approxmcmc("status", "bad")[1].count("FAILED") == 2


def test_a_beginning_that_several_cells_share_is_refused_with_the_cells(approxmcmc):
    approxmcmc("run", "good")
    code, _, err = approxmcmc("why", "")
    assert code == 2
    assert "6 cells below results" in err


def test_stale_cells_are_shown_and_retried(approxmcmc, monkeypatch):
    approxmcmc("run", "good")
    monkeypatch.setattr("approxmcmc.study.plan.code_version", lambda: "new")
    assert "6 stale" in approxmcmc("status", "good")[1]
    assert "the current code is new" in approxmcmc("report", "good")[1]
    approxmcmc("run", "good", "--only", "replicate=0")
    code, _, err = approxmcmc("report", "good")
    assert code == 2
    assert "results of two versions do not mix" in err
    assert approxmcmc("report", "good", "--allow-stale")[0] == 0
    assert "3 to run" in approxmcmc("retry", "good", "--stale")[1]
    assert approxmcmc("report", "good")[0] == 0


@pytest.mark.thorough
def test_verify_and_compare(approxmcmc, project):
    approxmcmc("run", "good")
    approxmcmc("run", "good", "--store", "other")
    code, out, _ = approxmcmc("verify", "good", "-n", "4")
    assert code == 0
    assert out.count(" equal\n") == 4
    code, out, _ = approxmcmc("compare", "results/toy-paper", "other/toy-paper")
    assert code == 0
    assert re.search(r"walk\[epsilon=0\.2\] +2 +2 +1 \[1, 1\] +1 \[1, 1\]", out)
    path = next((project / "results").rglob("record.json"))
    record = json.loads(path.read_text())
    write_json(path, {**record, "draws_hash": "other"})  # with a checksum: a record of other draws
    code, out, _ = approxmcmc("verify", "good", "-n", "6")
    assert code == 1
    assert out.count("DIFFERENT") == 1


def test_a_refused_plan_is_a_usage_error_that_shows_the_difference(approxmcmc, project):
    approxmcmc("run", "good")
    declare(project, "good", '{"walk": vary(ToySampler, epsilon=knob(0.0, 0.05))}')
    code, _, err = approxmcmc("run", "good")
    assert code == 2
    assert "samplers.walk[epsilon=0.2].epsilon: 0.2 -> nothing" in err


def test_a_gate_that_fails_gives_code_3(approxmcmc, monkeypatch):
    monkeypatch.setattr(
        "approxmcmc.study.run.make_gold",
        lambda study, preset, name, store: {
            "target": name, "status": "refused", "seconds": 1.0, "error": "",
            "gates": [{"gate": "r_hat", "value": None, "where": "beta", "limit": "<= 1.01", "passed": False}],
        },
    )  # fmt: skip
    code, out, _ = approxmcmc("run", "good")
    assert code == 3
    assert "gold plain: refused in 1.0 s (r_hat nan at beta, needs <= 1.01)" in out


def test_an_interrupt_gives_code_130_keeps_the_work_and_writes_no_report(approxmcmc, project):
    declare(project, "long", '{"walk": vary(ToySampler, fault=knob("", "interrupt"))}')
    code, out, _ = approxmcmc("run", "long")
    assert code == 130
    assert "interrupted; finished cells are kept" in out
    assert "report: " not in out


@pytest.mark.thorough
def test_doctor_tells_what_decides_about_speed(approxmcmc):
    code, out, _ = approxmcmc("doctor")
    assert code == 0
    for fact in ("code version", "processor", "linear algebra", "OMP_NUM_THREADS 1", "clock resolution", "speed probe",
                 "cache of gold standards", "numba "):  # fmt: skip
        assert fact in out


def test_doctor_knows_every_cache_whose_files_outlive_a_run():
    """The files of the other folders have no name, and vanish with their process."""
    package = Path(verbs.__file__).parents[1]
    calls = re.compile(r'user_cache\("(\w+)"\)')
    used = {name for path in package.rglob("*.py") for name in calls.findall(path.read_text(encoding="utf-8"))}
    assert used - {"light_rows", "expansions"} == verbs.CACHES.keys()


def test_every_verb_has_help(approxmcmc):
    _, out, _ = approxmcmc("--help")
    verbs = ["list", "plan", "run", "status", "why", "retry", "report", "compare", "verify", "doctor"]
    assert all(re.search(rf"^ +{verb} ", out, re.MULTILINE) for verb in verbs)


# --- what a pipe and a terminal get ---


def test_a_pipe_gets_plain_lines(approxmcmc):
    _, out, err = approxmcmc("run", "bad")
    assert "\x1b" not in out + err
    assert "\r" not in out + err


def test_a_terminal_gets_a_bar_and_the_same_lines(approxmcmc, monkeypatch):
    from approxmcmc.study.progress import Bar

    monkeypatch.setattr("approxmcmc.cli.shared.listener", Bar)
    code, out, _ = approxmcmc("run", "bad")
    assert code == 1
    assert "FAILED  plain walk[fault='raises'] replicate 0: RuntimeError: the toy broke" in out
    assert "[4/4]" in out


@pytest.mark.thorough
def test_the_command_itself_runs_in_a_new_process_and_limits_threads_before_numpy_is_loaded(project):
    root = str(Path(cli.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    code = "import sys; from approxmcmc.cli import main; assert 'numpy' not in sys.modules; sys.exit(main())"
    command = [sys.executable, "-c", code, "plan", "good"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=project, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 of 6 cells" in done.stdout


@pytest.mark.thorough
@pytest.mark.recompiles
def test_warm_samples_each_example_and_says_what_it_compiled(approxmcmc, monkeypatch):
    sampled = []

    def sample(target, **settings):
        sampled.append(type(target).__name__)
        count_kernel()

    monkeypatch.setattr("approxmcmc.api.sample", sample)
    for size in ("ROWS", "MANY"):
        monkeypatch.setattr(warm, size, 60)
    code, out, _ = approxmcmc("warm")
    names = [*warm.examples(), *(["Model"] * len(warm.hierarchies()))]
    assert code == 0 and sampled == [name.partition(",")[0] for name in names]
    lines = out.splitlines()
    counts = [int(re.search(r"(\d+) kernels? compiled", line)[1]) for line in lines[1:]]
    assert len(counts) == len(sampled) + 1 and min(counts) > 0  # to make a target may compile as well
    assert counts[-1] == sum(counts[:-1]) and lines[-1].endswith("MB")


def test_warm_may_be_interrupted(approxmcmc, monkeypatch):
    def sample(target, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("approxmcmc.api.sample", sample)
    assert approxmcmc("warm")[0] == 130
