"""What is read off a comparison, worked out by hand."""

from __future__ import annotations

import pytest

from potluck.core.errors import DataError
from potluck.core.history import History
from potluck.report.summary_table import summary_table
from potluck.report.trials import Entry, Trial
from tests.report.histories import four_methods, history, standings, trial


def two():
    return standings(
        trial("CoFED", 0, {"a": 0.5, "b": 0.5}, {"a": 0.9, "b": 0.5}),
        trial("Local", 0, {"a": 0.6, "b": 0.6}, {"a": 0.7, "b": 0.6}, up=0, down=0),
        trial("CoFED", 1, {"a": 0.6, "b": 0.6}, {"a": 0.8, "b": 0.8}),
        trial("Local", 1, {"a": 0.6, "b": 0.6}, {"a": 0.6, "b": 0.6}, up=0, down=0),
        target=0.7,
    )


def test_a_summary_by_hand():
    found = two().summary(Entry("CoFED"))
    assert found.scores == pytest.approx((0.7, 0.8))
    assert found.gains == pytest.approx((0.05, 0.2))
    assert (found.lost, found.participants) == ((1, 0), 2)
    assert found.worst == pytest.approx((0.5, 0.8))
    assert (found.up, found.down, found.total) == ((10, 10), (20, 20), (120, 120))
    assert found.to_target == ((2, 120, None), (2, 120, None))
    assert found.seconds == (4.0, 4.0)


def test_local_gains_nothing_over_itself():
    found = two().summary(Entry("Local"))
    assert (found.gains, found.lost) == ((), ())
    assert found.to_target == (None, None)


def test_the_worst_tenth_of_twenty_is_two():
    values = {f"p{number:02}": number / 20 for number in range(20)}
    assert standings(trial("Local", 0, values)).summary(Entry("Local")).worst == (0.025,)


def test_less_is_better_of_a_loss():
    found = standings(
        trial("CoFED", 0, {"a": 0.5, "b": 2.0}, metric="loss"),
        trial("Local", 0, {"a": 0.7, "b": 1.5}, metric="loss"),
        metric="loss",
        target=1.5,
    )
    summary = found.summary(Entry("CoFED"))
    assert summary.gains == pytest.approx((-0.15,))
    assert (summary.lost, summary.worst) == ((1,), (2.0,))
    assert summary.to_target == ((1, 60, None),)
    assert [entry.method for entry in found.ranked] == ["Local", "CoFED"]


def test_the_ceiling_does_not_compete():
    found = standings(*(trial(name, 0, {"a": value}) for name, value in (("Local", 0.5), ("Pooled", 0.9), ("FD", 0.7))))
    assert [entry.method for entry in found.ranked] == ["FD", "Local"]
    assert found.summary(Entry("Pooled")).gains == pytest.approx((0.4,))
    assert {pair.one for pair in found.significance().pairs} == {"FD"}


def swept(**validation):
    """Test data prefer 0.1, validation data 0.5."""
    alphas = {"0.1": 0.9, "0.5": 0.6}
    return [
        trial("CoFED", seed, {"a": test}, settings=[("method.alpha", alpha)], validation=validation.get(f"a{alpha}"))
        for seed in range(2)
        for alpha, test in alphas.items()
    ]


def test_the_best_setting_is_chosen_by_validation_alone():
    found = standings(*swept(**{"a0.1": {"a": 0.4}, "a0.5": {"a": 0.8}}), trial("Local", 0, {"a": 0.5}))
    assert [entry.label for entry in found.shown] == ["CoFED alpha=0.5", "Local"]
    assert "validation data alone" in found.choice[1]


def test_without_validation_data_none_is_chosen():
    found = standings(*swept(), trial("Local", 0, {"a": 0.5}))
    assert len(found.shown) == 3
    assert "never chosen on test data" in found.choice[1]


def test_with_unequal_budgets_none_is_chosen():
    known = swept(**{"a0.1": {"a": 0.4}, "a0.5": {"a": 0.8}})
    found = standings(*known, trial("FedAvg", 0, {"a": 0.5}, validation={"a": 0.5}))
    assert len(found.shown) == 3
    assert "CoFED 2, FedAvg 1" in found.choice[1]


def test_a_row_for_each_participant():
    frame = two().frame()
    assert len(frame) == 8
    row = frame[(frame.method == "CoFED") & (frame.seed == 1) & (frame.participant == "b")].iloc[0]
    assert (row["accuracy"], row["gain"], row["bytes_up"], row["seconds"]) == pytest.approx((0.8, 0.2, 20, 2.0))


def test_an_unknown_metric_is_told_with_those_there_are():
    with pytest.raises(DataError, match=r"'acuracy'. Did you mean 'accuracy'"):
        standings(trial("Local", 0, {"a": 0.5}), metric="acuracy")
    with pytest.raises(DataError, match="no run has been played"):
        standings()


def test_six_seeds_in_one_order_are_ranked_in_it():
    found = four_methods(8)
    assert [entry.method for entry in found.ranked] == ["CoFED", "FedAvg", "FD", "Local"]
    assert found.significance().ranking.ranks == {"CoFED": 1.0, "FedAvg": 2.0, "FD": 3.0, "Local": 4.0}
    assert all(pair.real for pair in found.significance().pairs)


def test_a_target_is_reached_at_a_simulated_time():
    late = [[1.5, 2.0], [4.0, 1.0]]
    rows = [
        {**row, "simulated_seconds": late[row["round"] - 1][row["participant"] == "b"]}
        for row in history([{"a": 0.5, "b": 0.6}, {"a": 0.7, "b": 0.8}]).recorded()
    ]
    found = standings(Trial(Entry("FD"), 0, History(rows)), target=0.75)
    assert found.summary(Entry("FD")).to_target == ((2, 120, 6.0),)
    table = summary_table(found)
    assert table.headings[9:11] == ["bytes to 75.0%", "simulated seconds to 75.0%"]
    assert table.rows[0][10] == "6.0"
