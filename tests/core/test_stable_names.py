"""What has a name in every process has the same one in all; what has none is told apart."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from potluck.core.stable_names import readable_name, stable_name

HERE = __name__


def at_top_level():
    """A function that a later process finds again."""

    def inside():
        return 0

    return inside


class Thing:
    def method(self):
        return 0

    @classmethod
    def made(cls):
        return cls()


hidden = at_top_level()


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        ("sgd", "sgd"),
        (0.5, "0.5"),
        (at_top_level, f"{HERE}:at_top_level"),
        (Thing, f"{HERE}:Thing"),
        (Thing.made, f"{HERE}:Thing.made"),
        (torch.optim.RMSprop, "torch.optim.rmsprop:RMSprop"),
        (torch.relu, "torch:relu"),
        (torch.nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
        (partial(torch.optim.SGD, nesterov=True), "partial {'': 'torch.optim.sgd:SGD', 'nesterov': 'True'}"),
    ],
    ids=["text", "number", "function", "class", "class method", "torch class", "built in", "module", "partial"],
)
def test_what_can_be_found_again_has_a_name(thing, name):
    assert stable_name(thing) == readable_name(thing) == name


@pytest.mark.parametrize(
    ("thing", "readable"),
    [
        (lambda: 0, f"{HERE}:<lambda>"),
        (hidden, f"{HERE}:at_top_level.<locals>.inside"),
        (Thing().method, f"{HERE}:Thing.method"),
        (Thing(), f"{HERE}:Thing"),
        (partial(stable_name, lambda: 0), "functools:partial"),
        ("x".upper, ":str.upper"),
    ],
    ids=["lambda", "closure", "method", "object", "partial", "builtin"],
)
def test_what_cannot_be_found_again_has_none_but_can_be_read(thing, readable):
    assert stable_name(thing) is None
    assert readable_name(thing) == readable


def test_a_function_in_the_place_of_another_has_not_its_name(monkeypatch):
    before = at_top_level
    monkeypatch.setitem(globals(), "at_top_level", Thing.made)
    assert stable_name(before) is None
