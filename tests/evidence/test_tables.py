"""What is compared is alike, and a table says how many seeds it has."""

import pytest

from evidence.comparisons import by_seed, compared, relative, stretches
from evidence.outcomes import Results, best, final, first_at, gains, spread
from evidence.tables import fedin, fedin_again
from tests.evidence.conftest import write_result as write


@pytest.fixture
def results(tmp_path):
    write(tmp_path, "one", 0, {1: 0.5, 2: 0.8, 3: 0.7})
    write(tmp_path, "one", 1, {1: 0.4, 2: 0.6, 3: 0.5})
    write(tmp_path, "one", 2, {1: 0.1})
    write(tmp_path, "two", 0, {1: 0.5, 2: 0.5, 3: 0.9, 4: 1.0})
    write(tmp_path, "never", 0, {})
    return Results(tmp_path)


def test_only_what_reached_a_round_is_compared_and_only_until_there(results):
    table = compared(results, "toy", {"one": "One", "two": "Two", "never": "Never"}, 3, {"two": "99"})
    assert table.splitlines()[2:] == [
        "| One | 70.0 50.0 | 80.0 60.0 (2 2) | 2.00 | – | two runs |",
        "| Two | 90.0 | 90.0 (3) | 2.00 | 99 | one run |",
    ]


def test_what_was_not_played_under_all_seeds_stands_seed_by_seed(results):
    table = by_seed(results, "toy", {"one": "One", "two": "Two", "never": "Never"}, 3, {"two": "99"})
    assert table.splitlines() == [
        "|  | seed 0, round 3 | seed 1, round 3 | published | seeds |",
        "| --- | --- | --- | --- | --- |",
        "| One | 70.0 | 50.0 | – | two runs |",
        "| Two | 90.0 | – | 99 | one run |",
    ]


def test_runs_that_were_cut_off_stand_at_their_last_round(tmp_path):
    """Two runs under one seed are told apart; each says when it touched 60%, and when it was there to stay a while."""
    write(tmp_path, "fedin", 0, {2: 0.5, 4: 0.55}, experiment="fedin_cifar", run="fedin_cifar.fedin.0-earlier")
    write(tmp_path, "fedin", 0, {2: 0.5, 4: 0.6, 6: 0.59, 8: 0.6, 10: 0.6, 12: 0.62}, experiment="fedin_cifar")
    assert fedin(Results(tmp_path)).splitlines()[2:] == [
        "| FedIN, run 1 of two | 0 | 4 | 55.0 | 55.0 (4) | – | – | 54 |",
        "| FedIN, run 2 of two | 0 | 12 | 62.0 | 62.0 (12) | 4 | 12 | 54 |",
    ]


def test_other_messages_stand_beside_the_same_published_rounds(tmp_path):
    write(tmp_path, "fedavg", 0, {2: 0.7}, experiment="fedin_cifar")
    write(tmp_path, "parameters-fedavg", 0, {2: 0.5, 4: 0.6}, experiment="fedin_cifar")
    rows = fedin(Results(tmp_path), "parameters-").splitlines()[2:]
    assert rows == ["| FedAvg, layer-wise, one run | 0 | 4 | 60.0 | 60.0 (4) | 4 | – | 109 |"]


def test_a_stretch_has_the_mean_of_its_rounds_where_it_was_played_to_its_end(results):
    table = stretches(results, "toy", {"one": "One", "two": "Two", "never": "Never"}, [(1, 2), (3, 4)])
    assert table.splitlines() == [
        "|  | seed | rounds 1 to 2 | rounds 3 to 4 |",
        "| --- | --- | --- | --- |",
        "| One, run 1 | 0 | 65.0 | – |",
        "| One, run 2 | 1 | 50.0 | – |",
        "| Two, one run | 0 | 50.0 | 95.0 |",
    ]


def test_runs_of_one_seed_stand_side_by_side(tmp_path):
    """All runs of an engine in one cell, and only those of the table that have the same seed."""
    write(tmp_path, "again-serial-torch-1", 0, {4: 0.5, 8: 0.6}, experiment="fedin_cifar")
    write(tmp_path, "again-serial-torch-2", 0, {4: 0.4}, experiment="fedin_cifar")
    write(tmp_path, "fedin", 0, {4: 0.3}, experiment="fedin_cifar")
    write(tmp_path, "fedin", 1, {4: 0.2}, experiment="fedin_cifar")
    rows = fedin_again(Results(tmp_path)).splitlines()[2:]
    assert rows[0] == "| serial, torch | 40.0 50.0 | – | 60.0 | – | – |"
    assert [row for row in rows if "run" in row] == ["| run 1 | 30.0 | – | – | – | – |"]


def test_numbers_of_an_outcome(results):
    outcomes = results.of("toy", "one")
    assert final(outcomes[:1]) == "70.0"
    assert best(outcomes[:1]) == "80.0 (2)"
    assert best([]) == final([]) == "–"
    assert first_at(outcomes[0], 0.7, over=1) == 2
    assert first_at(outcomes[0], 0.7, over=2) == 3
    assert first_at(outcomes[0], 0.9, over=1) is None


def test_too_few_seeds_have_no_deviation():
    assert spread([]) == "–"
    assert spread([0.5, 0.7]) == "50.0 70.0"
    assert spread([0.5, 0.7, 0.9]) == "70.0 ± 20.0"


def test_gains_are_relative_to_oneself_alone(tmp_path):
    write(tmp_path, "local", 0, {1: 0.5}, participants={"a": 0.4, "b": 0.6})
    write(tmp_path, "together", 0, {1: 0.6}, participants={"a": 0.6, "b": 0.6})
    write(tmp_path, "together", 1, {1: 0.1}, participants={"a": 0.1, "b": 0.1})  # nobody to compare with
    results = Results(tmp_path)
    found = gains(results.of("toy", "together")[0], results.of("toy", "local")[0])
    assert found == pytest.approx({"a": 0.5, "b": 0.0})
    last = relative(results, "toy", "local", {"together": "Together"}, {"together": "7"}).splitlines()[-1]
    assert last == "| Together | 60.0 | 25.0 | 25.0 | 0 … 50 | 50 | 7 | one run |"
