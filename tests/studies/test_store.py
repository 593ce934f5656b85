"""Results on disk: whole or not there, one plan, one run at a time."""

import errno
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from approxmcmc.engine.checks import differences_of
from approxmcmc.errors import StudyError
from approxmcmc.output.files import save
from approxmcmc.study import Budget, knob, vary
from approxmcmc.study.json_files import read_json, write_json
from approxmcmc.study.plan import make_plan
from approxmcmc.study.record import planned_record
from approxmcmc.study.store import Store, hash_of_draws
from tests.fakes import fake_trace
from tests.studies.toys import ToySampler, ToyTarget, toy_study

pytestmark = pytest.mark.core


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.of(tmp_path, "toy", "paper")


@pytest.fixture
def record() -> dict:
    plan = make_plan(toy_study(), "paper")
    return {**planned_record(plan.cells[0], plan), "status": "done", "acceptance_rate": np.nan}


def trace(rng):
    return fake_trace(rng.normal(size=(1, 5, 2)))


# --- cells ---


def test_a_cell_comes_back(store, record, rng):
    draws = trace(rng)
    store.write_cell(record, draws)
    assert store.records() == {record["key"]: {**record, "acceptance_rate": None}}
    assert hash_of_draws(store.trace(record["key"])) == hash_of_draws(draws)


def test_a_record_is_plain_json_and_nan_is_null(store, record):
    store.write_cell({**record, "x": np.inf, "n": np.int64(3), "a": np.array([1.0, np.nan])}, None)
    text = (store.cell_folder(record["key"]) / "record.json").read_text()
    assert "NaN" not in text
    content = json.loads(text)
    assert (content["x"], content["n"], content["a"]) == (None, 3, [1.0, None])


def test_draws_that_came_over_the_network_are_stored_as_they_are(store, record, rng):
    """As workers elsewhere send them, which write no file."""
    draws = trace(rng)
    store.write_cell(record, pickle.loads(pickle.dumps(draws)))
    assert hash_of_draws(store.trace(record["key"])) == hash_of_draws(draws)


class Killed(BaseException):
    """What a test raises in place of a kill."""


@pytest.mark.thorough
@pytest.mark.parametrize("second", [False, True], ids=["first write", "rewrite"])
def test_a_writer_killed_at_any_step_leaves_a_whole_cell_or_none(store, record, rng, monkeypatch, second):
    """Every call by which a writer changes the disk is cut off once, before and after it takes effect."""
    calls = [(os, "replace"), (os, "fsync"), (Path, "unlink"), (Path, "mkdir")]
    old, new = {**record, "draws": 1}, {**record, "draws": 2}
    draws = {1: trace(rng), 2: trace(rng)}
    outcomes = set()
    for home, name in calls:
        for after in (False, True):
            for nth in range(1, 30):
                store.write_cell(old, draws[1]) if second else None
                if not cut_off(monkeypatch, home, name, nth, after, lambda: store.write_cell(new, draws[2])):
                    break
                found = store.records()
                for key, kept in found.items():
                    assert hash_of_draws(store.trace(key)) == hash_of_draws(draws[kept["draws"]])
                outcomes.add(found[record["key"]]["draws"] if found else None)
                store.clean()
                assert [path.name for path in store.folder.rglob("*") if path.is_file()] in (
                    [],
                    ["record.json", "draws.nc"],
                    ["draws.nc", "record.json"],
                )
                assert store.records() == found
                for path in store.folder.rglob("*"):
                    path.unlink() if path.is_file() else None
    assert outcomes == ({None, 1, 2} if second else {None, 2})


def cut_off(monkeypatch, home, name, nth, after, act) -> bool:
    """Run `act` and kill it at the n-th call of a function; return whether there was one."""
    real, count = getattr(home, name), 0

    def killing(*args, **kwargs):
        nonlocal count
        count += 1
        if count == nth and not after:
            raise Killed
        result = real(*args, **kwargs)
        if count == nth:
            raise Killed
        return result

    with monkeypatch.context() as patch:
        patch.setattr(home, name, killing)
        try:
            act()
        except Killed:
            return True
    return False


def test_cleaning_removes_what_a_kill_left_and_nothing_else(store, record, rng):
    store.write_cell(record, trace(rng))
    unfinished = store.cell_folder("ab" * 16)
    unfinished.mkdir(parents=True)
    (unfinished / "draws.nc").write_bytes(b"half")
    (store.folder / ".plan.json.0123.tmp").write_text("half")
    assert store.clean() == 2
    assert not unfinished.exists()
    assert set(store.records()) == {record["key"]}
    assert store.clean() == 0


def test_a_cell_that_is_made_again_in_the_same_run_keeps_nothing_of_a_dead_worker(store, record, rng):
    """Remains are only removed by the next run."""
    folder = store.cell_folder(record["key"])
    folder.mkdir(parents=True)
    (folder / ".draws.tmp.0123.tmp").write_bytes(b"half")
    store.write_cell(record, trace(rng))
    assert sorted(path.name for path in folder.iterdir()) == ["draws.nc", "record.json"]


# --- what cannot be read or written ---


@pytest.mark.parametrize(
    ("file", "content", "read"),
    [
        ("record.json", '{"key": "0', lambda store: store.records()),
        ("record.json", "[]", lambda store: store.records()),
        ("record.json", '{"key": "01"}', lambda store: store.records()),
        ("plan.json", "", lambda store: store.plan()),
        ("plan.json", "{}", lambda store: store.plan()),
        ("gold/plain.json", "{", lambda store: store.gold_report("plain")),
        ("provenance/01.json", "{", lambda store: store.provenance()),
    ],
)
def test_a_file_that_is_cut_off_is_named_with_the_way_out(store, record, file, content, read):
    store.write_cell(record, None)
    path = (store.cell_folder(record["key"]) if file == "record.json" else store.folder) / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    with pytest.raises(StudyError, match="remove this file and run again") as caught:
        read(store)
    assert str(path) in str(caught.value)


def test_a_record_in_the_folder_of_another_cell_is_refused(store, record):
    store.write_cell(record, None)
    store.cell_folder("ab" * 16).mkdir(parents=True)
    write_json(store.cell_folder("ab" * 16) / "record.json", record)
    with pytest.raises(StudyError, match=f"the record of cell {record['key']}"):
        store.records()


@pytest.mark.parametrize("damage", ["other", "cut", "gone"])
def test_draws_that_are_not_those_of_the_record_are_refused_with_the_command_that_mends_them(
    store, record, rng, damage
):
    draws = fake_trace(rng.normal(size=(1, 500, 2)))
    store.write_cell({**record, "draws_hash": hash_of_draws(draws), "command": "approxmcmc retry toy"}, draws)
    path = store.cell_folder(record["key"]) / "draws.nc"
    if damage == "other":
        save(trace(rng), path)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:2000])
    else:
        path.unlink()
    with pytest.raises(StudyError, match="Make them again: approxmcmc retry toy"):
        store.trace(record["key"])


def no_room(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_no_finished_cell(store, record, rng, monkeypatch):
    draws = trace(rng)
    kept = {**record, "draws_hash": hash_of_draws(draws)}
    store.write_cell(kept, draws)
    with monkeypatch.context() as patch:
        patch.setattr("approxmcmc.output.files.save", no_room)
        with pytest.raises(StudyError, match="make room"), store.lock():
            store.write_cell(record, trace(rng))
    assert store.records()[record["key"]]["draws_hash"] == hash_of_draws(store.trace(record["key"]))


def test_other_errors_of_the_system_keep_their_name(store):
    with pytest.raises(FileNotFoundError), store.lock():
        Path("nowhere", "at all").read_text()


# --- the plan ---


def test_a_plan_is_accepted_again_and_may_grow(store):
    study = toy_study()
    assert store.accept_plan(make_plan(study, "paper")) == "new"
    assert store.accept_plan(make_plan(study, "paper")) == "same"
    larger = toy_study(
        replicates=3,
        targets={"plain": ToyTarget, "wide": lambda: ToyTarget(3)},
        samplers={"walk": vary(ToySampler, epsilon=knob(0.0, 0.05, 0.1, 0.2)), "other": ToySampler(fault="x")},
    )
    assert store.accept_plan(make_plan(larger, "paper")) == "extended"
    assert len(store.plan()["cells"]) == 3 * 2 * 5


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"budget": Budget(draws=30)}, "budget.draws: 20 -> 30"),
        ({"seed": 2}, "seed: 1 -> 2"),
        ({"targets": {"plain": lambda: ToyTarget(5)}}, "targets.plain: "),
        (
            {"samplers": {"walk": vary(ToySampler, epsilon=knob(0.0, 0.05))}},
            "samplers.walk[epsilon=0.2].kind: ToySampler -> nothing",
        ),
        ({"replicates": 1}, "replicates: 2 -> 1"),
    ],
)
def test_any_other_plan_is_refused_with_the_difference(store, change, difference):
    store.accept_plan(make_plan(toy_study(), "paper"))
    before = store.plan()
    with pytest.raises(StudyError, match="results of two plans do not mix") as caught:
        store.accept_plan(make_plan(toy_study(**change), "paper"))
    assert difference in str(caught.value)
    assert store.plan() == before


def test_a_change_of_code_is_no_change_of_plan(store, monkeypatch):
    store.accept_plan(make_plan(toy_study(), "paper"))
    monkeypatch.setattr("approxmcmc.study.plan.code_version", lambda: "other")
    assert store.accept_plan(make_plan(toy_study(), "paper")) == "same"


def test_differences_name_what_came_went_and_changed():
    assert differences_of({"a": 1, "b": {"c": 2}, "d": 3}, {"a": 1, "b": {"c": 4}, "e": 5}) == [
        "b.c: 2 -> 4",
        "d: 3 -> nothing",
        "e: nothing -> 5",
    ]


# --- one run at a time ---


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="the lock is tested where fcntl is")
def test_a_second_run_is_refused_and_a_killed_one_lets_go(store):
    code = (
        "import sys, time; from pathlib import Path; from approxmcmc.study.store import Store\n"
        "with Store(Path(sys.argv[1])).lock():\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(store.folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StudyError, match="Another run is working"), store.lock():
            pass
        holder.kill()
    with store.lock():
        pass


def test_provenance_is_written_once_per_content(store):
    first = store.write_provenance({"python": "3.13"})
    assert store.write_provenance({"python": "3.13"}) == first
    assert store.write_provenance({"python": "3.12"}) != first
    assert store.provenance()[first] == {"python": "3.13"}


def test_json_replaces_whole_files(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    write_json(tmp_path / "a.json", {"x": (1, float("-inf"))})
    assert read_json(tmp_path / "a.json") == {"x": [1, None]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_file_changes_by_rename_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    assert cut_off(monkeypatch, os, "replace", 1, False, lambda: write_json(path, {"x": 2}))
    assert read_json(path) == {"x": 1}
