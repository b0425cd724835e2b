from __future__ import annotations

from potluck.engines.batched.stacking import Room


def test_room_that_was_too_small_doubles():
    assert Room(3, 100).grown(Room(2, 150)) == Room(3, 200)
    assert Room(3, 100).grown(Room(7, 50)) == Room(7, 100)


def test_room_covers_what_is_no_larger_in_any_way():
    assert Room(3, 100).covers(Room(3, 100))
    assert not Room(3, 100).covers(Room(4, 1))
    assert not Room(3, 100).covers(Room(1, 101))
