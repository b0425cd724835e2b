from __future__ import annotations

from potluck.engines.batched.stacking import Capacity


def test_room_that_was_too_small_doubles():
    assert Capacity(3, 100).grown(Capacity(2, 150)) == Capacity(3, 200)
    assert Capacity(3, 100).grown(Capacity(7, 50)) == Capacity(7, 100)


def test_room_covers_what_is_no_larger_in_any_way():
    assert Capacity(3, 100).covers(Capacity(3, 100))
    assert not Capacity(3, 100).covers(Capacity(4, 1))
    assert not Capacity(3, 100).covers(Capacity(1, 101))
