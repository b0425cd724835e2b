"""What is said of an item follows from its numbers."""

from __future__ import annotations

import pytest

from potluck.core.errors import SettingsError
from potluck.recipes.paper_item import PaperItem
from potluck.reproduction.outcome import Reproduction
from tests.report.histories import trial

ITEM = PaperItem(
    paper="X",
    item="Table 1",
    title="who wins",
    claim="A wins.",
    measures=["accuracy"],
    rows=[
        {"title": "A", "published": {"accuracy": 90}},
        {"title": "B", "published": {"accuracy": 80}},
        {"title": "C", "published": {"accuracy": 70}},
        {"title": "D"},
    ],
    scales={"smoke": {}, "small": {"reduced": "less of all."}},
    open="the rate.",
)


def played(scale="small", seeds=3):
    reached = {"A": 0.7, "B": 0.8, "C": 0.6, "D": 0.5}
    runs = {
        seed: {title: trial(title, seed, {"a": value + seed / 100}) for title, value in reached.items()}
        for seed in range(seeds)
    }
    return Reproduction(ITEM, scale, runs, {})


def test_ours_stand_beside_theirs():
    rows = played().table().rows
    assert rows[0] == ["A", "accuracy", "71 ± 1", "90", "-19"]
    assert rows[3] == ["D", "accuracy", "51 ± 1", "–", "–"]


def test_pairs_in_the_published_order_are_counted():
    """A > B > C was published; ours is B > A > C."""
    assert played().agreement("accuracy") == (2, 3)
    assert "By accuracy 2 of 3 pairs of rows are in the published order." in played().sentences()


def test_what_was_reduced_left_open_and_too_few_seeds_are_told():
    told = played(seeds=1).sentences()
    assert told[0] == "The paper: A wins."
    assert "1 seed: nothing can be concluded from so few." in told
    assert "Reduced: less of all." in told
    assert "Left open by the paper: the rate." in told
    assert not any("nothing can be concluded" in sentence for sentence in played().sentences())


def test_a_count_needs_no_seeds():
    counted = Reproduction(ITEM.model_copy(update={"counted": True}), "small", played(seeds=1).runs, {})
    assert not any("nothing can be concluded" in sentence for sentence in counted.sentences())


def test_made_data_are_compared_with_nothing():
    found = played("smoke")
    assert found.table().rows[0][3:] == ["90", "–"]
    told = found.sentences()
    assert not any("published order" in sentence for sentence in told)
    assert "The data are made: this shows that the recipe runs, and nothing else." in told


def test_what_was_not_played_is_missing_and_told():
    found = Reproduction(ITEM, "small", {0: {"A": trial("A", 0, {"a": 0.7})}}, {"B, seed 0": "it broke"})
    assert found.values("B", "accuracy") == []
    assert found.table().rows[1][2:] == ["–", "80", "–"]
    assert found.sentences()[-1] == "Not played: B, seed 0: it broke"
    with pytest.raises(SettingsError, match="no measure"):
        found.values("A", "nothing")
    with pytest.raises(SettingsError, match=r"no row 'AA'.*Did you mean 'A'"):
        found.values("AA", "accuracy")


def test_gains_are_counted_within_a_group():
    rows = [{"title": title, "group": group} for group in ("x", "y") for title in ("Local", "CoFED")]
    item = PaperItem(
        paper="X", item="Table 1", title="t", measures=["gain over Local %"], rows=rows, scales={"small": {}}
    )
    reached = {"x: Local": 0.5, "x: CoFED": 0.6, "y: Local": 0.8, "y: CoFED": 0.4}
    runs = {name: trial(name, 0, {"a": value}) for name, value in reached.items()}
    found = Reproduction(item, "small", {0: runs}, {})
    assert found.values("x: CoFED", "gain over Local %") == pytest.approx([20])
    assert found.values("y: CoFED", "gain over Local %") == pytest.approx([-50])
    assert found.table().rows[1][0] == "x: CoFED"
