"""Who takes part: shares, counts, functions."""

from __future__ import annotations

import pytest

import potluck
from potluck.core.errors import SettingsError
from potluck.federation.participation import check_participation, choose, how_many
from tests.tables import mlp, participants

ABLE = [f"p{number}" for number in range(7)]


def by_turns(round, names, generator):
    """One after the other, for the tests of files."""
    return [names[round % len(names)]]


@pytest.mark.parametrize(("participation", "count"), [(0.05, 1), (0.5, 4), (1.0, 7), (1, 1), (3, 3), (7, 7), (100, 7)])
def test_a_float_is_a_share_and_an_int_a_count(participation, count):
    assert how_many(participation, 7) == count
    assert len(choose(participation, 1, ABLE, seed=0)) == count


def test_of_nobody_nobody_is_chosen_and_no_function_asked():
    assert choose(0.5, 1, [], seed=0) == []
    assert choose(2, 1, [], seed=0) == []
    assert choose(lambda *_: pytest.fail("there is nobody to choose from"), 1, [], seed=0) == []


def test_a_count_draws_whom_the_share_of_it_draws():
    assert choose(4, 3, ABLE, seed=5) == choose(0.5, 3, ABLE, seed=5)


def test_a_function_chooses_by_round_and_names_and_draws_from_the_seed():
    assert choose(by_turns, 9, ABLE, seed=0) == ["p2"]

    def drawn(round, names, generator):
        import torch

        return [names[int(torch.randint(len(names), (), generator=generator))], "p0", "p0"]

    first = [choose(drawn, round, ABLE, seed=1) for round in range(1, 9)]
    assert first == [choose(drawn, round, ABLE, seed=1) for round in range(1, 9)]
    assert first != [choose(drawn, round, ABLE, seed=2) for round in range(1, 9)]
    assert all(names == sorted(set(names)) for names in first), "sorted, each once"


@pytest.mark.parametrize("wrong", [0, 0.0, -1, 1.5, True, "half", None])
def test_what_says_nothing_of_who_takes_part_is_refused(wrong):
    with pytest.raises(SettingsError, match=r"participation is .*; expected a share above 0, up to 1.0"):
        check_participation(wrong)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (["p9"], r"chose 'p9' in round 4, who is none of those"),
        ([], "chose nobody in round 4"),
        (None, "returned None in round 4; expected a list of names"),
        ("p1", "returned 'p1' in round 4; expected a list of names"),
    ],
)
def test_a_function_that_chooses_wrongly_is_told(named, message):
    with pytest.raises(SettingsError, match=message):
        choose(lambda round, names, generator: named, 4, ABLE, seed=0)


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_a_federation_of_those_whom_a_function_chooses(engine):
    people = participants([mlp(0) for _ in range(3)], sizes=[6] * 3)
    history = potluck.Federation(people, potluck.methods.FedAvg(), participation=by_turns, engine=engine).run(3)
    took_part = [(row["round"], row["participant"]) for row in history.rows() if row["took_part"]]
    assert took_part == [(1, "p1"), (2, "p2"), (3, "p0")]


def test_a_function_without_a_name_cannot_be_resumed(tmp_path):
    def federation(choose):
        people = participants([mlp(0) for _ in range(2)], sizes=[6] * 2)
        return potluck.Federation(people, potluck.methods.Local(), participation=choose)

    federation(lambda round, names, generator: names).run(1, run_dir=tmp_path / "nameless")
    with pytest.raises(potluck.PotluckError, match=r"participation is .*lambda"):
        federation(lambda round, names, generator: names).run(2, run_dir=tmp_path / "nameless", resume=True)
    federation(by_turns).run(1, run_dir=tmp_path / "named")
    assert federation(by_turns).run(2, run_dir=tmp_path / "named", resume=True).rounds == 2
    with pytest.raises(potluck.PotluckError, match="participation"):
        federation(0.5).run(3, run_dir=tmp_path / "named", resume=True)
