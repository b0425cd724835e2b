"""Every line can be read and lies where its setting belongs; a withdrawn one counts no more."""

import pytest

from evidence.outcomes import Results
from evidence.result_files import ITEMS, RESULTS, all_lines, file_of, keep_content
from potluck.reproduction.result_lines import read_lines, withdraw
from potluck.reproduction.rows import read_rows
from tests.evidence.conftest import write_result

FILES = sorted(RESULTS.rglob("*.jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_a_file_holds_what_belongs_to_it(path):
    for line in read_lines(path):
        assert file_of(line.experiment, line.setting) == path
        assert line.experiment in ITEMS or line.experiment in read_rows()
        if line.carried_over is None:
            assert line.commit
            assert line.start or line.content
        else:
            assert line.commit is line.start is line.data is line.beside is None


def test_nothing_else_lies_there():
    kept = {path for path in RESULTS.rglob("*") if path.is_file() and not path.name.startswith(".")}
    assert kept == {*FILES, RESULTS / "README.md"}


def test_no_two_runs_have_one_name():
    names = [line.run for path in FILES for line in read_lines(path)]
    assert len(names) == len(set(names))


def test_the_first_pattern_that_fits_says_where():
    assert file_of("fedin_cifar", "narrow-noise-0.2") == RESULTS / "fedin/table-6-narrow.jsonl"
    assert file_of("fedin_cifar", "narrow-fedin") == RESULTS / "fedin/table-2b-narrow.jsonl"
    assert file_of("fedin_cifar", "noise-0.8") == RESULTS / "fedin/table-1.jsonl"
    assert file_of("mhat-figure-3", "small.β 1") == RESULTS / "mhat/figure-3.jsonl"
    assert file_of("never listed", "x") == RESULTS / "never listed.jsonl"


def test_what_is_withdrawn_is_in_no_table(tmp_path):
    for seed in range(2):
        write_result(tmp_path, "one", seed, {1: 0.5})
    withdraw(tmp_path / "toy.jsonl", "toy.one.0", "a fault of the engine")
    assert [line.run for line in all_lines(tmp_path)] == ["toy.one.1"]
    assert list(Results(tmp_path).runs("toy.one")) == [1]


def test_a_count_made_again_takes_the_place_of_the_last_one(tmp_path):
    for share in (0.4, 0.5):
        keep_content("counts", "fedin", {"share": share}, tmp_path)
    assert Results(tmp_path).read("counts.fedin") == {"share": 0.5}
    first, second = read_lines(file_of("counts", "fedin", tmp_path))
    assert first.withdrawn == "found again as counts.fedin-2"
    assert second.withdrawn is None
    assert second.commit
