"""CoFED's setting: the paper's numbers at the paper's size, and every promise at any size."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from potluck.core.errors import DataError
from potluck.data import superclasses

FINE = np.arange(50_000) % 100  # CIFAR-100: 500 rows of each of 100 subclasses,
COARSE = FINE // 5  # five to a superclass


def subclass_counts(partition, y, fine):
    """For each participant and superclass: how many rows of each subclass it holds."""
    return [
        np.unique(fine[share[y[share] == label]], return_counts=True)[1].tolist()
        for share, space in zip(partition.indices, partition.labels, strict=True)
        for label in space
    ]


def test_the_papers_iid_setting():
    made = superclasses(COARSE, FINE, 100)
    assert {len(space) for space in made.labels} == {6, 7, 8}
    assert all(len(share) == 50 * len(space) for share, space in zip(made.indices, made.labels, strict=True))
    assert all(set(COARSE[share]) == set(space) for share, space in zip(made.indices, made.labels, strict=True))
    assert all(counts == [10] * 5 for counts in subclass_counts(made, COARSE, FINE))
    assert {label for space in made.labels for label in space} == set(range(20))


def test_the_papers_non_iid_setting():
    made = superclasses(COARSE, FINE, 100, subclasses=(1, 2))
    assert {len(space) for space in made.labels} == {6, 7, 8}
    counts = subclass_counts(made, COARSE, FINE)
    assert {len(each) for each in counts} == {1, 2}
    assert all(sum(each) == 50 for each in counts)


def test_each_seed_has_its_own_partition():
    def drawn(seed):
        return [share.tolist() for share in superclasses(COARSE, FINE, 10, seed, subclasses=(1, 2)).indices]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


def test_too_few_rows_are_told_with_what_would_fit():
    y, fine = COARSE[:20_000], FINE[:20_000]
    with pytest.raises(DataError) as error:
        superclasses(y, fine, 100)
    assert str(error.value) == (
        "100 participants with at least 6 superclasses need 600 portions of 50 rows of one superclass; "
        "20000 rows in 20 superclasses make 400. participants=66 would fit. samples_per_class=33 would fit."
    )
    assert len(superclasses(y, fine, 66).indices) == 66
    assert len(superclasses(y, fine, 100, samples_per_class=33).indices) == 100


def test_ranges_hold_even_when_rows_are_just_enough():
    made = superclasses(COARSE[:20_000], FINE[:20_000], 66, subclasses=(1, 2))  # 396 of 400 portions at the least
    assert {len(space) for space in made.labels} <= {6, 7, 8}
    assert sum(len(space) for space in made.labels) <= 400


def test_nothing_fits_where_no_superclass_has_the_rows():
    with pytest.raises(DataError, match=r"make 0\. samples_per_class=2 would fit\.$"):
        superclasses([0, 0, 1, 1], [0, 1, 2, 3], 1, per_participant=(1, 1), samples_per_class=3)


@pytest.mark.parametrize("given_range", [(0, 1), (2, 1), (1, 3), (1,), (1, 2, 2), (1.0, 2), 2, "12"])
@pytest.mark.parametrize("name", ["per_participant", "subclasses"])
def test_ranges_must_fit_the_data(name, given_range):
    demand = {"per_participant": (1, 1), "samples_per_class": 2} | {name: given_range}
    with pytest.raises(DataError, match=rf"{name}={re.escape(repr(given_range))}; .* to <= 2"):
        superclasses([0, 0, 1, 1], [0, 1, 2, 3], 1, **demand)


def test_every_subclass_asked_for_needs_a_row():
    with pytest.raises(DataError, match="samples_per_class=1; expected a whole number from 2 up"):
        superclasses([0, 0, 1, 1], [0, 1, 2, 3], 1, per_participant=(1, 1), samples_per_class=1, subclasses=(2, 2))


def test_both_columns_speak_of_the_same_rows():
    with pytest.raises(DataError, match="'y': 2, 'fine': 1"):
        superclasses([0, 1], [0], 1)


@settings(deadline=2000)
@given(st.data())
def test_every_promise_holds_or_the_demand_is_refused(data):
    fine = np.array(data.draw(st.lists(st.integers(0, 8), min_size=3, max_size=120)))
    y = fine // 3
    people, size = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 10))
    low, high = sorted(data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))))
    among = data.draw(st.none() | st.tuples(st.integers(1, 3), st.integers(1, 3)).map(sorted).map(tuple))
    names, sizes = np.unique(y, return_counts=True)
    assume(high <= len(names))
    demand = {"seed": data.draw(st.integers(0, 999)), "per_participant": (low, high)}
    demand |= {"samples_per_class": size, "subclasses": among}
    try:
        made = superclasses(y, fine, people, **demand)
    except DataError:
        enough = np.minimum(people, sizes // size).sum() >= people * low
        assert among is not None or not enough
        return
    held = np.concatenate(made.indices)
    assert len(set(held.tolist())) == len(held)
    for share, space in zip(made.indices, made.labels, strict=True):
        assert low <= len(space) <= high
        assert np.unique(y[share]).tolist() == list(space)
        assert set(np.unique(y[share], return_counts=True)[1]) == {size}
    if among is not None:
        assert all(among[0] <= len(counts) <= among[1] for counts in subclass_counts(made, y, fine))
    again = superclasses(y, fine, people, **demand)
    assert all(np.array_equal(one, other) for one, other in zip(made.indices, again.indices, strict=True))


def test_an_unlucky_draw_of_subclasses_gives_way_to_one_that_fits():
    fine = np.repeat([0, 1, 2], [7, 1, 3])  # three portions of three, from two subclasses or more: only with care
    for seed in range(30):
        made = superclasses(np.zeros(11), fine, 3, seed, per_participant=(1, 1), samples_per_class=3, subclasses=(2, 3))
        assert all(len(counts) >= 2 for counts in subclass_counts(made, np.zeros(11), fine))


def test_hands_too_large_for_a_rare_superclass_are_made_smaller():
    y = np.array([0] * 4 + [1] * 4 + [2])  # only one participant can have the last one, and so three of them
    sizes = [sorted(map(len, superclasses(y, y, 3, seed, (1, 3), 1).labels)) for seed in range(30)]
    assert all(smallest >= 1 and middle <= 2 and largest <= 3 for smallest, middle, largest in sizes)
    assert [2, 2, 3] in sizes
