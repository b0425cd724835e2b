"""Dealing under limits: as even as possible, and possible whenever there is a way."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.data.allocation import deal, evenly
from potluck.data.sampling import draws


@pytest.mark.parametrize(
    ("total", "room", "expected"),
    [
        (50, [500, 500, 500, 500, 500], [10, 10, 10, 10, 10]),
        (7, [9, 9, 9], [2, 2, 3]),
        (10, [1, 9, 3], [1, 6, 3]),
        (5, [1, 2], [1, 2]),
        (0, [4], [0]),
    ],
)
def test_even_parts(total, room, expected):
    assert evenly(total, np.array(room)).tolist() == expected


@given(st.integers(0, 60), st.lists(st.integers(0, 20), min_size=1, max_size=8))
def test_parts_fill_the_room_and_differ_by_one_at_most_where_room_is_left(total, rooms):
    parts, room = evenly(total, np.array(rooms)), np.array(rooms)
    assert parts.sum() == min(total, room.sum())
    assert (parts <= room).all()
    assert (parts[parts < room] >= parts.max() - 1).all()


SMALL = st.lists(st.integers(0, 3), min_size=1, max_size=3)


def possible(sizes, slots):
    """Tries every way."""
    hands = [list(itertools.combinations(range(len(slots)), size)) for size in sizes]
    return any(
        all(sum(place in hand for hand in way) <= free for place, free in enumerate(slots))
        for way in itertools.product(*hands)
    )


@given(SMALL, SMALL, st.integers(0, 5), st.booleans())
def test_hands_keep_to_sizes_and_slots_and_are_found_when_there_is_a_way(sizes, slots, seed, fullest_first):
    hands = deal(np.array(sizes), np.array(slots), draws(seed), fullest_first=fullest_first)
    if hands is None:
        assert not fullest_first or not possible(sizes, slots)
        return
    assert [len(set(hand.tolist())) for hand in hands] == sizes
    dealt = np.bincount(np.concatenate([*hands, np.array([], dtype=int)]).astype(int), minlength=len(slots))
    assert (dealt <= slots).all()


def test_a_draw_at_random_uses_every_class():
    hands = deal(np.full(50, 2), np.array([50, 9, 9, 9, 9, 50, 50]), draws(0), fullest_first=False)
    assert hands is not None
    assert set(np.concatenate(hands)) == set(range(7))
