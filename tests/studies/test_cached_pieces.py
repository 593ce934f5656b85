"""What a study's analyses made is read from the store while nothing that it may depend on has changed."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from approxmcmc.study.report import content
from approxmcmc.study.report.cache import cached_pieces
from approxmcmc.study.report.pieces import Figure, Note, Table
from approxmcmc.study.report.publish import publish
from approxmcmc.study.report.svg import subplots, svg_document
from approxmcmc.study.results import StudyResults
from approxmcmc.study.run import run_study
from tests.studies.toys import quiet_probe, toy_sample, toy_study

CALLS = []


def pieces(results):
    """Return one piece of each kind, with what tables hold: gaps, infinities, words, integers, numpy's numbers."""
    CALLS.append(results.preset)
    figure, axes = subplots()
    axes.plot([0.0, 1.0], [0.1, 0.7])
    rows = {
        "name": ["a", None], "risk": [np.float64(0.1) / 3, math.nan], "gap": [math.nan, math.nan],
        "at": [math.inf, 1.0], "count": np.array([1, 2]), "fine": [True, False],
    }  # fmt: skip
    data = pd.DataFrame(rows)
    return [
        Figure("Curve", "What is drawn.", figure, data),
        Table("Rows", "What they are.", data, headings={"at": "seconds"}, formats={"risk": ".1%"}),
        Note("Look."),
    ]


def refuse(path, content):
    raise OSError("read-only")


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens the results of a finished study as a new process would."""
    CALLS.clear()
    study = toy_study(analyses=(pieces,), replicates=1)
    file = tmp_path / "studies" / "toy.py"
    (file.parent / "tools").mkdir(parents=True)
    file.write_text("study = None\n")
    run_study(study, "paper", tmp_path / "results", sample=toy_sample, probe=quiet_probe)
    return lambda: StudyResults.open(study, "paper", tmp_path / "results", source=str(file))


def test_pieces_come_back_as_they_were(opened):
    made, read = (cached_pieces(opened(), "analyses", pieces) for _ in range(2))
    assert len(CALLS) == 1
    assert [type(piece) for piece in read] == [Figure, Table, Note]
    assert svg_document(read[0].figure) == svg_document(made[0].figure)
    for before, after in zip(made[:2], read[:2], strict=True):
        pd.testing.assert_frame_equal(before.data, after.data)
    assert (read[1].headings, read[1].formats) == ({"at": "seconds"}, {"risk": ".1%"})
    assert read[2] == made[2]


def test_a_page_that_is_published_again_is_the_same_and_computes_nothing(opened, tmp_path):
    folders = [tmp_path / name for name in ("first", "second")]
    texts = [[path.read_bytes() for path in publish(opened(), folder, folder)] for folder in folders]
    assert texts[0] == texts[1] and len(texts[0]) == 4  # numbers, pictures, words and the page
    assert len(CALLS) == 1


def test_a_change_of_code_records_or_libraries_makes_them_again(opened, tmp_path, monkeypatch):
    changes = [
        lambda: (tmp_path / "studies" / "toy.py").write_text("study = 1\n"),
        lambda: (tmp_path / "studies" / "tools" / "effort.py").write_text("DRAWS = 2\n"),
        lambda: next((tmp_path / "results").rglob("record.json")).write_text("{}"),
        lambda: monkeypatch.setattr("approxmcmc.study.report.cache.version", lambda name: "2"),
    ]
    results = opened()
    for count, change in enumerate([lambda: None, *changes], start=1):
        change()
        cached_pieces(results, "analyses", pieces)
        cached_pieces(results, "analyses", pieces)
        assert len(CALLS) == count


def test_without_a_file_or_a_store_that_can_be_written_they_are_made_each_time(opened, monkeypatch):
    results = dataclasses.replace(opened(), source="")
    for count in (1, 2):
        assert len(content.compose(results).sections) > 1
        assert len(CALLS) == count
    assert not (results.store.folder / "pieces").exists()
    monkeypatch.setattr("approxmcmc.study.report.cache.write_bytes", refuse)
    assert len(cached_pieces(opened(), "analyses", pieces)) == 3
