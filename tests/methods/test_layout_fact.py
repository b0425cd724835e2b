"""A layout that a participant tells: names that can be shown, types that travel, and no more than may be allocated."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from potluck.methods.layout_fact import layout_fact


def told(layout, budget=1000):
    return TypeAdapter(layout_fact(budget)).validate_python(layout, strict=True)


def test_a_layout_is_read_as_it_is():
    layout = {"fc.weight": ["float32", 10, 20], "fc.bias": ["float64", 10], "none": ["float32", 0], "one": ["int64"]}
    assert told(layout) == layout


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ({"w": ["float32", 251]}, "at most 1000 bytes"),
        ({"w": ["float32", -1]}, "no type and shape"),
        ({"w": ["complex64", 1]}, "complex64"),
        ({"w": []}, "at least 1 item"),
        ({"w\x1b": ["float32", 1]}, "printable names"),
        ({"__metadata__": ["float32", 1]}, "printable names"),
    ],
)
def test_any_other_is_refused(layout, why):
    with pytest.raises(ValidationError, match=why):
        told(layout)
