"""Drop-outs: who is away or leaves, and what becomes of the others."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.errors import SettingsError
from potluck.federation.availability import Availability, as_availability
from tests.tables import mlp, participants


def federation(count=3, engine="serial", method=None, **settings):
    people = participants([mlp(0) for _ in range(count)], sizes=[8, 16, 24][:count] + [8] * (count - 3))
    return potluck.Federation(people, method or potluck.methods.FedAvg(), engine=engine, seed=3, **settings)


def test_the_shares_of_those_who_are_away_and_leave_are_those_asked_for():
    mixed = Availability(away=0.2, leaves=0.3, late=0.1)
    drawn = [mixed.of(f"p{n}", round, seed=0) for n in range(50) for round in range(40)]
    counts = [drawn.count(presence) / len(drawn) for presence in ("away", "leaves", "late", "there")]
    assert counts == pytest.approx([0.2, 0.3, 0.1, 0.4], abs=0.04)


def test_it_depends_on_seed_name_and_round_alone():
    half = Availability(away=0.5)
    assert [half.of("a", r, 0) for r in range(20)] == [half.of("a", r, 0) for r in range(20)]
    assert [half.of("a", r, 0) for r in range(20)] != [half.of("b", r, 0) for r in range(20)]
    assert [half.of("a", r, 0) for r in range(20)] != [half.of("a", r, 1) for r in range(20)]


def test_a_trace_goes_before_what_is_drawn_and_shares_may_be_each_ones_own():
    mixed = Availability(away={"a": 1.0}, trace={"a": {2: "there"}, "b": {3: "leaves"}})
    assert [mixed.of("a", r, 0) for r in (1, 2, 3)] == ["away", "there", "away"]
    assert [mixed.of("b", r, 0) for r in (1, 2, 3)] == ["there", "there", "leaves"]


def test_a_probability_is_short_for_being_there():
    assert as_availability(0.75) == Availability(away=0.25)
    assert as_availability(1.0) == Availability(away=0.0)
    for wrong in (0, 1.1, True, "often"):
        with pytest.raises(SettingsError, match="expected the probability of being there"):
            as_availability(wrong)


def test_what_cannot_be_is_refused():
    with pytest.raises(SettingsError, match=r"away = 0.6, leaves = 0.6, late = 0 for 'a'; expected probabilities"):
        Availability(away={"a": 0.6}, leaves=0.6)
    with pytest.raises(SettingsError, match=r"away = -0.1, leaves = 0, late = 0; expected"):
        Availability(away=-0.1)
    with pytest.raises(SettingsError, match=r"availability names 'p8', who is no participant"):
        federation(availability=Availability(trace={"p8": {1: "away"}}))
    with pytest.raises(SettingsError, match=r"a\.1 = 'asleep'\. Known: away, late, leaves, there"):
        Availability(trace={"a": {1: "asleep"}})
    with pytest.raises(SettingsError, match="greater than 0"):
        Availability(trace={"a": {0: "away"}})


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_the_server_goes_on_with_who_is_left(engine):
    """FedAvg by hand: p1 (16 samples) is away, p2 (24) leaves after its training; so p0's weights are the mean."""
    played = federation(engine=engine, availability=Availability(trace={"p1": {1: "away"}, "p2": {1: "leaves"}}))
    start = played.participants["p1"].model.state_dict()
    history = played.run(1)
    rows = {row["participant"]: row for row in history.rows()}
    assert [(rows[name]["took_part"], rows[name]["refused"]) for name in ("p0", "p1", "p2")] == [
        (True, None),
        (False, "it was away"),
        (True, "it left before its answer arrived"),
    ]
    weights = {name: played.participants[name].weights() for name in rows}
    alone = federation(engine=engine, participation=lambda round, names, generator: ["p0"])
    alone.run(1)
    for name, entry in alone.participants["p0"].weights().items():
        torch.testing.assert_close(weights["p0"][name], entry, rtol=0, atol=1e-12)
        assert not torch.equal(weights["p2"][name], entry), "it has trained, and keeps that"
    assert set(start) == set(weights["p1"])
    joining = rows["p1"]["bytes_up"]
    assert rows["p2"]["bytes_up"] == joining, "what did not arrive is not counted"
    assert rows["p0"]["bytes_up"] > joining


def test_what_is_late_is_sent_and_not_read():
    """As one that leaves, but for the bytes."""
    late, gone = (federation(availability=Availability(trace={"p2": {1: how}})) for how in ("late", "leaves"))
    (row, of_gone) = (played.run(1).rows()[2] for played in (late, gone))
    assert row["refused"] == "too slow: its answer came after the deadline"
    sent = potluck.Payload(late.participants["p2"].weights()).size
    assert row["bytes_up"] >= of_gone["bytes_up"] + sent
    for name, entry in late.participants["p0"].weights().items():
        torch.testing.assert_close(entry, gone.participants["p0"].weights()[name], rtol=0, atol=0)


def test_whoever_leaves_has_caught_up_and_trained():
    """After a round at home FedAvg has it fetch what the others have: it sends nothing then, and does not leave."""
    played = federation(availability=Availability(trace={"p1": {1: "away", 2: "leaves"}}))
    played.run(2)
    others, ours = (played.participants[name].weights() for name in ("p0", "p1"))
    assert any(not torch.equal(entry, others[name]) for name, entry in ours.items())
    row = played.history.at(2).rows[1]
    assert row["refused"] == "it left before its answer arrived"
    assert row["bytes_down"] >= potluck.Payload(others).size, "it was given what the others have"


def test_the_histories_of_both_engines_and_of_a_resumed_run_are_equal(tmp_path):
    settings = {"count": 5, "availability": Availability(away=0.25, leaves=0.25, late=0.25), "participation": 4}

    def rows(played):
        return [(r["round"], r["participant"], r["took_part"], r["refused"], r["bytes_up"]) for r in played.rows()]

    whole = rows(federation(**settings).run(4))
    assert {row[3] for row in whole} == {
        None,
        "it was away",
        "it left before its answer arrived",
        "too slow: its answer came after the deadline",
    }
    assert rows(federation(engine="batched", **settings).run(4)) == whole
    federation(**settings).run(2, run_dir=tmp_path)
    assert rows(federation(**settings).run(4, run_dir=tmp_path, resume=True)) == whole
    with pytest.raises(potluck.PotluckError, match="availability"):
        federation(**{**settings, "availability": 0.5}).run(5, run_dir=tmp_path, resume=True)


def test_a_round_to_which_nobody_comes_changes_nothing():
    played = federation(availability=Availability(trace={f"p{n}": {1: "away"} for n in range(3)}))
    history = played.run(2)
    first = list(history.recorded(1))
    assert [row["refused"] for row in first] == ["it was away"] * 3
    assert all(row["took_part"] for row in history.recorded(2))
