"""The table of the mutants' tests is whole."""

import pytest

from tests.mutants.tables import (
    ROOT,
    files_naming,
    files_of,
    mapped_tests,
    modules,
    shared_tests,
)


@pytest.mark.thorough
def test_every_module_has_tests_that_exist():
    table = mapped_tests()
    assert set(table) == set(modules()) and all(table.values())
    files = {file for tests in (*table.values(), shared_tests()) for file in files_of(tests)}
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_a_module_without_an_entry_has_the_tests_that_name_it():
    found = files_naming("samplers/metropolis_hastings/program.py")
    assert (
        "tests/unit/samplers/test_metropolis_hastings.py" in found
        and "tests/unit/acceptance/test_barker.py" not in found
    )
