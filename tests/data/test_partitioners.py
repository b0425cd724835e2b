"""Partitions: disjoint, complete where promised, drawn from the seed, and clear about what cannot be had."""

import sys
import types
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.core.errors import DataError, SettingsError
from potluck.data import (
    PARTITIONS,
    arrays,
    by_classes,
    by_group,
    digits,
    dirichlet,
    generated,
    iid,
    quantity,
    split,
    superclasses,
)
from potluck.data.partitioners import _repair
from potluck.data.sampling import draws

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=80).map(np.array)
PEOPLE = st.integers(1, 12)
SEEDS = st.integers(0, 2**32)


def rows(partition):
    return sorted(np.concatenate(partition.indices).tolist())


def same(one, other):
    alike = [np.array_equal(a, b) for a, b in zip(one.indices, other.indices, strict=True)]
    return all(alike) and one.labels == other.labels


def covers(partition, y):
    assert rows(partition) == list(range(len(y)))
    assert all((np.diff(share) > 0).all() for share in partition.indices)
    assert set(partition.labels) == {tuple(sorted(set(y.tolist())))}


@given(LABELS, PEOPLE, SEEDS)
def test_iid_shares_every_row_out_equally(y, people, seed):
    if people > len(y):
        with pytest.raises(DataError, match=f"at most {len(y)} participants"):
            iid(y, people, seed)
        return
    made = iid(y, people, seed)
    covers(made, y)
    sizes = [len(share) for share in made.indices]
    assert max(sizes) - min(sizes) <= 1
    assert same(made, iid(y, people, seed))


@given(LABELS, PEOPLE, st.floats(1e-3, 1e308), SEEDS, st.integers(1, 12))
def test_quantity_covers_every_row_and_meets_the_minimum_or_says_why_not(y, people, alpha, seed, minimum):
    if people * minimum > len(y):
        with pytest.raises(DataError, match="Lower minimum"):
            quantity(y, people, alpha, seed, minimum)
        return
    made = quantity(y, people, alpha, seed, minimum)
    covers(made, y)
    assert min(len(share) for share in made.indices) >= minimum
    assert same(made, quantity(y, people, alpha, seed, minimum))


def test_the_smaller_alpha_the_more_unequal_are_the_numbers_of_rows():
    y = np.zeros(10_000, dtype=int)
    spreads = [np.std([len(share) for share in quantity(y, 10, alpha).indices]) for alpha in (1e9, 10, 0.5)]
    assert spreads[0] < 1 < spreads[1] < spreads[2]
    with pytest.raises(DataError, match="alpha=0; expected a number above 0"):
        quantity(y, 10, 0)


@settings(deadline=2000)
@given(LABELS, PEOPLE, st.floats(1e-300, 1e308), SEEDS, st.integers(1, 12))
def test_dirichlet_covers_every_row_and_meets_the_minimum_or_says_why_not(y, people, alpha, seed, minimum):
    if people * minimum > len(y):
        with pytest.raises(DataError, match=f"need {people * minimum}, and there are {len(y)}"):
            dirichlet(y, people, alpha, seed, minimum)
        return
    made = dirichlet(y, people, alpha, seed, minimum)
    covers(made, y)
    assert min(len(share) for share in made.indices) >= minimum
    assert same(made, dirichlet(y, people, alpha, seed, minimum))


def test_a_small_alpha_is_more_unequal_than_a_large_one():
    y = np.arange(4000) % 10

    def largest_class(alpha):
        shares = dirichlet(y, 8, alpha, seed=1).indices
        return np.mean([np.bincount(y[share], minlength=10).max() / len(share) for share in shares])

    assert largest_class(0.05) > 0.5
    assert largest_class(1000) < 0.15


def test_an_endless_alpha_is_an_even_split():
    assert {len(share) for share in dirichlet(np.zeros(100), 4, 1e308).indices} == {25}


def test_rows_for_the_minimum_come_from_the_largest_holders():
    y = np.zeros(100, dtype=int)
    sizes = sorted(len(share) for share in dirichlet(y, 5, 1e-6, minimum=7).indices)
    assert sizes == [7, 7, 7, 7, 72]  # one class at such an α goes to one participant whole


def test_only_the_largest_give_and_the_smallest_keep_what_they_have():
    shares = np.split(np.arange(110), [50, 52, 57, 87])  # 50, 2, 5, 30 and 23 rows
    repaired = _repair(shares, 10, draws(0))
    assert [len(share) for share in repaired] == [37, 10, 10, 30, 23]
    for small in (1, 2):
        assert set(shares[small]) < set(repaired[small]) <= set(shares[small]) | set(shares[0])
    assert sorted(np.concatenate(repaired)) == list(range(110))


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf")])
def test_alpha_is_above_zero(alpha):
    with pytest.raises(DataError, match="alpha="):
        dirichlet([0, 1], 1, alpha)


@given(LABELS, PEOPLE, st.integers(1, 6), SEEDS, st.integers(1, 5))
def test_by_classes_gives_everyone_its_classes_or_says_why_not(y, people, classes, seed, minimum):
    names, sizes = np.unique(y, return_counts=True)
    room = np.minimum(people, sizes // minimum)
    if people * classes > room.sum():
        with pytest.raises(DataError, match=f"need {people * classes} portions.* make {room.sum()}"):
            by_classes(y, people, classes, seed, minimum)
        return
    made = by_classes(y, people, classes, seed, minimum)
    for share, space in zip(made.indices, made.labels, strict=True):
        held, counts = np.unique(y[share], return_counts=True)
        assert tuple(held.tolist()) == space
        assert len(space) == classes
        assert counts.min() >= minimum
    given_out = {label for space in made.labels for label in space}
    reachable = names[room > 0]
    assert len(given_out) == min(len(reachable), people * classes)
    assert rows(made) == np.flatnonzero(np.isin(y, list(given_out))).tolist()
    assert same(made, by_classes(y, people, classes, seed, minimum))


def test_by_classes_says_how_many_classes_would_fit():
    with pytest.raises(DataError, match="classes=2 would fit"):
        by_classes([0, 0, 1, 1], 2, 3)
    with pytest.raises(DataError, match="Lower minimum or participants"):
        by_classes([0, 0, 1, 1], 5, 1)
    assert by_classes([0, 0, 1, 1], 2, 2).labels == [(0, 1), (0, 1)]


def test_holders_of_a_class_are_equally_many_and_share_it_evenly():
    y = np.arange(1000) % 10
    made = by_classes(y, 20, 3)
    assert np.bincount(np.concatenate(made.labels)).tolist() == [6] * 10
    assert {np.bincount(y[share]).max() for share in made.indices} <= {16, 17}


def test_with_fewer_hands_than_classes_the_seed_decides_which_are_left_out():
    y = np.arange(100) % 10
    chosen = {label for seed in range(20) for space in by_classes(y, 2, 1, seed).labels for label in space}
    assert chosen == set(range(10))


@given(LABELS, st.data(), SEEDS)
def test_by_group_keeps_groups_whole_and_covers_every_row(y, data, seed):
    groups = np.array(data.draw(st.lists(st.sampled_from("abcdef"), min_size=len(y), max_size=len(y))))
    count = len(set(groups))
    people = data.draw(st.integers(1, count + 1))
    if people > count:
        with pytest.raises(DataError, match=f"{people} participants and {count} groups.*at most {count}"):
            by_group(groups, y, people, seed)
        return
    made = by_group(groups, y, people, seed)
    covers(made, y)
    held = [set(groups[share]) for share in made.indices]
    assert sum(len(each) for each in held) == count
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert same(made, by_group(groups, y, people, seed))


def test_by_group_without_a_number_makes_every_group_a_participant():
    made = by_group(["b", "a", "b", "c"], [0, 1, 0, 0])
    assert [share.tolist() for share in made.indices] == [[1], [0, 2], [3]]
    assert made.labels == [(0, 1)] * 3


def test_by_group_gives_each_the_group_that_is_named_and_others_to_nobody():
    groups = ["b", "a", "b", "c"]
    made = by_group(groups, [0, 1, 0, 0], 2, names=["c", "b"])
    assert [rows.tolist() for rows in made.indices] == [[3], [0, 2]]
    assert made.labels == [(0, 1)] * 2
    with pytest.raises(DataError, match="There is no group 'd'"):
        by_group(groups, [0, 1, 0, 0], names=["d"])
    for people, names in ((3, ["a", "b"]), (2, ["a", "a"])):
        with pytest.raises(DataError, match="expected one group for each, and none twice"):
            by_group(groups, [0, 1, 0, 0], people, names=names)


@pytest.mark.parametrize("kind", ["iid", "quantity", "by-group"])
def test_values_are_shared_out_without_labels(kind):
    source = arrays(np.arange(40.0)[:, None], np.arange(40) / 3, values=True)
    source = replace(source, groups=np.arange(30) % 3)
    own = {"alpha": 1.0} if kind == "quantity" else {}
    made = split(kind, source, 3, **own)
    assert made.labels == [()] * 3
    assert sorted(np.concatenate(made.indices).tolist()) == list(range(30))


@pytest.mark.parametrize(("kind", "own"), [("dirichlet", {"alpha": 1.0}), ("by-classes", {"classes": 2})])
def test_values_have_no_classes_to_deal_out(kind, own):
    with pytest.raises(DataError, match=f"'{kind}' deals out classes, and the targets of 'arrays' are values"):
        split(kind, arrays(np.arange(40.0)[:, None], np.arange(40), values=True), 3, **own)


def test_groups_speak_of_the_same_rows():
    with pytest.raises(DataError, match="'groups': 1, 'y': 2"):
        by_group([1], [0, 1])


@pytest.mark.parametrize("people", [0, -1, 2.0])
@pytest.mark.parametrize(
    "partition",
    [
        lambda people: iid([0, 1], people),
        lambda people: dirichlet([0, 1], people, 1.0),
        lambda people: by_classes([0, 1], people, 1),
        lambda people: by_group([0, 1], [0, 1], people),
        lambda people: superclasses([0, 1], [0, 1], people),
    ],
)
def test_participants_are_counted_from_one(partition, people):
    with pytest.raises(DataError, match="participants="):
        partition(people)


@pytest.mark.parametrize(
    "make",
    [
        lambda y, seed: iid(y, 5, seed),
        lambda y, seed: dirichlet(y, 5, 0.5, seed),
        lambda y, seed: by_classes(y, 5, 2, seed),
        lambda y, seed: by_group(np.arange(200) % 20, y, 5, seed),
    ],
)
def test_another_seed_is_another_partition(make):
    y = np.arange(200) % 4
    assert not same(make(y, 0), make(y, 1))


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("iid", {}),
        ("dirichlet", {"alpha": 0.5, "minimum": 4}),
        ("by-classes", {"classes": 2}),
        ("by_group", {}),
        ("superclasses", {"per_participant": [1, 2], "samples_per_class": 10, "subclasses": [1, 1]}),
    ],
)
def test_every_partition_can_be_named(kind, own):
    source = generated(samples=400)
    made = split(kind, source, 6, 1, **own)
    assert len(made.indices) == 6
    assert same(made, split(kind, source, 6, 1, **own))


def test_split_passes_the_seed_and_settings_on():
    source = generated(samples=400)
    assert same(split("dirichlet", source, 4, 7, alpha=0.3), dirichlet(source.y, 4, 0.3, 7))
    assert same(split("by-group", source, 4, 7), by_group(source.groups, source.y, 4, 7))


def test_split_says_what_a_source_lacks():
    with pytest.raises(DataError, match="'by-group' needs groups, and the source 'digits' has none"):
        split("by-group", digits(), 3)
    with pytest.raises(DataError, match="'superclasses' needs fine"):
        split("superclasses", digits(), 3)


def test_split_answers_unknown_names_and_settings_with_known_ones():
    source = generated(samples=40)
    with pytest.raises(SettingsError, match=r"There is no partition 'dirichlett'. Did you mean 'dirichlet'"):
        split("dirichlett", source, 2)
    with pytest.raises(SettingsError, match=r"'dirichlet' has no setting 'beta'. .*Known: alpha, minimum\."):
        split("dirichlet", source, 2, beta=3)
    with pytest.raises(SettingsError, match="missing a required argument: 'alpha'"):
        split("dirichlet", source, 2)
    assert set(PARTITIONS) >= {"iid", "dirichlet", "by-classes", "by-group", "superclasses"}


def test_split_takes_a_partition_of_ones_own(monkeypatch):
    module = types.ModuleType("my_table")
    module.seats = lambda y, participants, seed: iid(y, participants, seed)
    module.nothing = lambda participants, seed: []
    monkeypatch.setitem(sys.modules, "my_table", module)
    source = generated(samples=40)
    assert same(split("my_table:seats", source, 3, 5), iid(source.y, 3, 5))
    with pytest.raises(SettingsError, match=r"gave a list; expected a potluck\.data\.Partition"):
        split("my_table:nothing", source, 3)
