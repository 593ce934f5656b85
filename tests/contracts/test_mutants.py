"""The table of the mutants' tests is whole, and the list of equivalent mutants is about code that there is."""

from tests.mutants.tables import (
    ANY,
    PACKAGE,
    ROOT,
    files_naming,
    files_of,
    mapped_tests,
    modules,
    read,
    shared_tests,
)


def test_every_module_has_tests_that_exist():
    table = mapped_tests()
    assert set(table) == set(modules()) and all(table.values())
    files = {file for tests in (*table.values(), shared_tests()) for file in files_of(tests)}
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_equivalent_mutants_are_of_lines_that_there_are():
    for module, several in read("equivalent.toml").items():
        files = modules() if module == ANY else [module]
        lines = {line.strip() for file in files for line in (PACKAGE / file).read_text(encoding="utf-8").splitlines()}
        for one in several:
            assert set(one) == {"line", "mutant", "reason"} | ({"in"} if module != ANY else set())
            assert one["line"] in lines and one["mutant"] != one["line"] and one["reason"]


def test_a_module_without_an_entry_has_the_tests_that_name_it():
    found = files_naming("samplers/metropolis_hastings/undefined.py")
    assert "tests/unit/samplers/test_out_of_reach.py" in found and "tests/unit/acceptance/test_barker.py" not in found
