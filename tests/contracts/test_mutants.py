"""The table of the mutants' tests is whole, and the list of equivalent mutants is about code that there is."""

from tests.mutants.tables import PACKAGE, ROOT, mapped_tests, modules, read


def test_every_module_has_tests_that_exist():
    table = mapped_tests()
    assert set(table) == set(modules()) and all(table.values())
    files = {test.split("::")[0] for tests in table.values() for test in tests}
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_equivalent_mutants_are_of_lines_that_there_are():
    for module, several in read("equivalent.toml").items():
        lines = {line.strip() for line in (PACKAGE / module).read_text(encoding="utf-8").splitlines()}
        for one in several:
            assert set(one) == {"in", "line", "mutant", "reason"} and all(one[key] for key in ("mutant", "reason"))
            assert one["line"] in lines and one["mutant"] != one["line"]
