"""53 tables and figures, each with a verdict that follows from the results, and a command that plays what it names."""

import re

import pytest

from evidence.checks import (
    CAME_BACK,
    DID_NOT,
    IN_PART,
    NOT_TRIED,
    Found,
    Statement,
    ahead,
    level,
    near,
    sooner,
    unplayed,
    verdict,
)
from evidence.outcomes import Results
from evidence.result_files import RESULTS
from evidence.rows import all_rows, paper_verdict, rows, told_anew, tried
from evidence.run_all import PLANNED
from evidence.statements import STATEMENTS, statements
from potluck.reproduction.rows import FILE
from tests.evidence.conftest import write_result as write

COUNTS = {"DraftFed": 11, "PerHeFed": 10, "MHAT": 6, "FedIN": 15, "CoFED": 11}


@pytest.fixture(scope="module")
def results():
    return Results(RESULTS)


def test_all_are_there_once():
    assert len({row.name for row in rows()}) == len(rows()) == sum(COUNTS.values()) == 53
    assert {paper: sum(row.paper == paper for row in rows()) for paper in COUNTS} == COUNTS


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_the_verdict_that_ships_is_that_of_the_results(row, results):
    """Where it is another one: python -m evidence.pages."""
    assert (row.told.verdict, row.told.seeds) == (row.verdict(results), row.seeds(results))


def test_a_verdict_that_changed_is_written_into_its_own_row_alone(results):
    text = FILE.read_text()
    wrong = text.replace('verdict = "came back"', 'verdict = "did not"')
    assert wrong != text
    assert told_anew(wrong, results) == told_anew(text, results) == text


def test_a_row_was_tried_if_something_is_said_of_it(results):
    assert {row.name for row in rows() if row.runs} == set(STATEMENTS)
    assert sum(tried(results).values()) == 53


@pytest.mark.parametrize("row", [row for row in rows() if row.runs], ids=lambda row: row.name)
def test_a_verdict_is_read_from_the_runs_that_the_row_names(row, results):
    results.read_so_far.clear()
    assert row.verdict(results) != NOT_TRIED
    named = {run if row.is_counted else f"{run}." for run in row.runs}
    assert {name for name in results.files if name.startswith(tuple(named))} >= results.read_so_far
    assert all(any(name.startswith(run) for name in results.read_so_far) for run in named)


@pytest.mark.parametrize("row", [row for row in rows() if row.only], ids=lambda row: row.name)
def test_a_command_plays_what_its_verdict_is_read_from(row):
    played = {f"{job.experiment}.{job.setting}" for job in PLANNED if job.name.startswith(tuple(row.only))}
    assert set(row.runs) <= played


def test_what_was_trained_has_a_command():
    assert all(bool(row.only) == (bool(row.runs) and not row.is_counted) for row in rows())


def test_the_table_has_all_rows(results):
    lines = all_rows(results).splitlines()[2:]
    assert [re.split(r" \| ", line.strip("| "))[0] for line in lines] == [row.name for row in rows()]


def test_a_papers_verdict_is_that_of_its_main_tables(results):
    assert {row.paper for row in rows() if row.main} == set(COUNTS)
    assert all(paper_verdict(paper, results) != NOT_TRIED for paper in COUNTS)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("found", "expected"),
        [
            ([True, True], CAME_BACK),
            ([True, None], IN_PART),
            ([True, False], IN_PART),
            ([False, None], DID_NOT),
            ([], NOT_TRIED),
        ],
    )
    def test_all_some_or_none(self, found, expected):
        assert verdict([Statement("so", lambda _, holds=holds: Found("", holds)) for holds in found], None) == expected

    @pytest.fixture
    def toy(self, tmp_path):
        for seed in range(3):
            write(tmp_path, "base", seed, {1: 0.5, 2: 0.6, 3: 0.70 + 0.001 * seed})
            write(tmp_path, "above", seed, {1: 0.6, 2: 0.7, 3: 0.72 + 0.002 * seed})
            write(tmp_path, "noisy", seed, {1: 0.5, 2: 0.6, 3: 0.60 + 0.1 * seed})
        return Results(tmp_path)

    @pytest.mark.parametrize(
        ("check", "holds"),
        [
            (ahead("toy.above", "toy.base"), True),
            (ahead("toy.base", "toy.above"), False),
            (ahead("toy.noisy", "toy.base"), None),
            (level("toy.above", "toy.base", 3), True),
            (level("toy.above", "toy.base", 1), False),
            (level("toy.noisy", "toy.base", 1), None),
            (near(lambda _: [1.0, 2.0, 3.0], 2.2, 0.5), True),
            (near(lambda _: [1.0, 2.0, 3.0], 3.0, 0.5), False),
            (near(lambda _: [1.0, 2.0], 1.5, 0.5), None),
            (unplayed, None),
        ],
    )
    def test_a_statement_holds_or_not_or_is_not_told_apart(self, check, holds, toy):
        assert check(toy).holds is holds

    def test_who_is_sooner_at_a_fixed_accuracy(self, tmp_path):
        for seed in range(3):
            write(tmp_path, "late", seed, {n: n / 20 for n in range(1, 21)})
            write(tmp_path, "soon", seed, {n: n / 10 for n in range(1, 11)})
        toy = Results(tmp_path)
        assert sooner("toy.soon", "toy.late", 60, 0.9)(toy) == Found("0.6 … 0.6 times", True)
        assert sooner("toy.late", "toy.soon", 60, 0.9)(toy).holds is False


def test_a_papers_statements_stand_beside_what_came_out(results):
    lines = statements(results, "CoFED").splitlines()[2:]
    assert len(lines) == sum(len(listed) for name, listed in STATEMENTS.items() if name.startswith("CoFED, "))
    assert all(line.endswith(("| yes |", "| no |", "| not told apart |", "| – |")) for line in lines)
