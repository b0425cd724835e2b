"""What participants must have in common is what most say, whoever comes first."""

from __future__ import annotations

import pytest

from potluck.core.errors import RequirementsError
from potluck.federation.agreement import agreed
from potluck.federation.server import Server


def differs(found, expected):
    return f"{found}, not {expected}"


@pytest.mark.parametrize(
    ("told", "known", "common", "odd"),
    [
        ({"a": 1, "b": 1}, None, 1, []),
        ({"a": 2, "b": 1, "c": 1}, None, 1, ["a"]),
        ({"c": 1, "b": 1, "a": 2}, None, 1, ["a"]),
        ({"a": 3, "b": 2, "c": 1, "d": 1}, None, 1, ["a", "b"]),
        ({"a": 2, "b": 2, "c": 1}, 1, 1, ["a", "b"]),
        ({"a": 2}, 1, 1, ["a"]),
        ({"a": [1, 2], "b": ["1", "2"], "c": [1, 2]}, None, [1, 2], ["b"]),
        ({"a": {"x": 1, "y": 2}, "b": {"x": 1}, "c": {"y": 2, "x": 1}}, None, {"x": 1, "y": 2}, ["b"]),
    ],
)
def test_the_odd_ones_are_refused(told, known, common, odd):
    server = Server(0, {})
    assert agreed(server, told, differs, known) == common
    assert server.refused == {name: f"{told[name]}, not {common}" for name in odd}


@pytest.mark.parametrize("told", [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 1, "d": 2}, {"b": 2, "a": 1, "c": 3}])
def test_where_nobody_can_tell_who_is_odd_all_are_told(told):
    with pytest.raises(RequirementsError, match=r"b differs from a: 2, not 1\. As many say the one as the other"):
        agreed(Server(0, {}), told, differs)
