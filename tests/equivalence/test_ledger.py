"""The ledger of draws holds: pairings draw what they drew when it was written, or are refused for the same reason."""

import pytest

from tests import ledger

MACHINE, STORED = ledger.read()
SAME_MACHINE = ledger.machine() == MACHINE


def compared(entries):
    """Return entries without what cannot be compared on this machine."""
    return {method: ledger.comparable(ledger.of_mode(text), bits=SAME_MACHINE) for method, text in entries.items()}


@pytest.mark.recompiles
@pytest.mark.slow
@pytest.mark.parametrize("name", ledger.TARGETS if ledger.MODE == "plain" else ledger.COMPILED)
def test_draws_are_those_of_the_ledger(name):
    """A change that is meant goes into the file by `python -m tests.ledger`, compiled and not."""
    assert compared(ledger.entries_of(name)) == compared(STORED.get(name, {}))


def test_the_ledger_has_a_table_for_each_target_and_no_other():
    assert list(STORED) == list(ledger.TARGETS)
    assert all(list(entries) == list(ledger.METHODS) for entries in STORED.values())


@pytest.mark.parametrize("name", STORED)
def test_compilation_changes_the_last_bits_at_most(name):
    """Rounded draws and counts are the same in both modes, but where PyTensor itself needs the compiler."""
    for method, entry in STORED[name].items():
        compiled, plain = (ledger.comparable(ledger.of_mode(entry, mode), bits=False) for mode in ("compiled", "plain"))
        assert compiled == plain or "PyTensor cannot compile" in plain, method


@pytest.mark.recompiles
def test_a_slope_that_is_slightly_wrong_changes_the_entries_that_follow_slopes(monkeypatch):
    name, make = "LogisticRegression", ledger.TARGETS["LogisticRegression"]

    def wrong_target():
        target = make()
        right = target.likelihood.derivatives

        def wrong(eta, y):
            first, second = right(eta, y)
            return first * (1.0 + 1e-5), second

        target.likelihood.derivatives = wrong
        return target

    monkeypatch.setitem(ledger.TARGETS, name, wrong_target)
    fresh, stored = ledger.entries_of(name), STORED[name]
    changed = {
        method
        for method in ledger.METHODS
        if ledger.comparable(fresh[method], bits=False) != ledger.comparable(ledger.of_mode(stored[method]), bits=False)
    }
    assert {"Langevin", "Hamiltonian", "ZigZag"} <= changed
    assert not {"random walk", "t-test in blocks", "t-test in rows", "Firefly"} & changed


def test_draws_of_one_mode_are_not_taken_for_those_of_the_other(monkeypatch, tmp_path):
    fresh = {"random walk": "0123abcd 0123abcd 0123abcd", "ZigZag": "IncompatibleError: needs a regression"}
    monkeypatch.setattr(ledger, "PATH", tmp_path / "ledger.toml")
    monkeypatch.setattr(ledger, "entries_of", lambda name: fresh)
    ledger.write(["BatchTarget"])
    stored = ledger.read()[1]["BatchTarget"]
    other = "compiled" if ledger.MODE == "plain" else "plain"
    assert {method: ledger.of_mode(text) for method, text in stored.items()} == fresh
    assert ledger.of_mode(stored["random walk"], other) == "not recorded"
    assert ledger.of_mode(stored["ZigZag"], other) == fresh["ZigZag"]
