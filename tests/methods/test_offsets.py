"""Where filters begin in a wider layer."""

from __future__ import annotations

from potluck.federation.server import Server
from potluck.methods.offsets import drawn, even, zero


def test_zero_is_the_origin():
    assert zero({"a": [2, 3], "b": [4]}) == {"a": [0, 0], "b": [0]}


def test_drawn_ones_leave_room():
    server = Server(0, {})
    for own in range(1, 5):
        found = drawn({f"p{i}": [own] for i in range(20)}, [4], server)
        assert {first for (first,) in found.values()} == set(range(5 - own))


def test_even_ones_cover_all_alike():
    """Four windows of two in a layer of four: twice each. Whoever covers all begins at the origin."""
    assert even({name: [2] for name in "dcba"}, [4]) == {"a": [0], "b": [2], "c": [0], "d": [2]}
    assert even({"a": [4], "b": [1], "c": [3], "d": [2]}, [4]) == {"a": [0], "b": [0], "c": [1], "d": [0]}


def test_layers_are_independent_and_some_have_fewer():
    assert even({"a": [1, 2], "b": [1]}, [2, 2]) == {"a": [0, 0], "b": [1]}
