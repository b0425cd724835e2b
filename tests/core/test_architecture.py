from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from potluck.core.architecture import Architecture, difference
from tests.tables import cnn, mlp


class Activated(nn.Module):
    def __init__(self, activation, scale=1.0):
        super().__init__()
        self.layer, self.activation, self.scale = nn.Linear(2, 2), activation, scale

    def forward(self, x):
        return self.scale * self.activation(self.layer(x))


def test_networks_that_differ_in_weights_only_are_alike():
    assert Architecture(cnn(0)) == Architecture(cnn(1))


def test_the_mode_does_not_matter():
    assert Architecture(cnn(0).eval()) == Architecture(cnn(0).train())


def test_shapes_and_types_matter():
    kinds = [cnn(0), cnn(0, width=5), mlp(0), cnn(0, dtype=torch.float32)]
    assert len({Architecture(module) for module in kinds}) == len(kinds)


def test_attributes_that_no_repr_shows_matter():
    """Two modules with equal shapes and equal repr may still compute different things."""
    assert repr(Activated(torch.tanh)) == repr(Activated(F.relu))
    kinds = [Activated(torch.tanh), Activated(F.relu), Activated(torch.tanh, scale=2.0), nn.Linear(2, 2)]
    assert len({Architecture(module) for module in kinds}) == len(kinds)
    assert Architecture(Activated(F.relu)) == Architecture(Activated(F.relu))


def test_frozen_parameters_matter():
    assert Architecture(mlp(0)) != Architecture(mlp(0).requires_grad_(False))


def test_an_attribute_nobody_can_compare_makes_a_module_unique():
    assert Architecture(Activated(lambda x: x)) != Architecture(Activated(lambda x: x))
    odd = Activated(F.relu)
    odd.extra = object()
    twin = Activated(F.relu)
    twin.extra = object()
    assert Architecture(odd) != Architecture(twin)
    assert Architecture(odd) == Architecture(odd)


# Layouts, in words


def test_what_differs_first_is_told():
    expected = {"a": ["float32", 2, 3], "b": ["float64"], "c": ["int64", 1]}
    for found, text in [
        ({**expected, "a": ["float32", 3, 2]}, "a is float32 of shape (3, 2); expected float32 of shape (2, 3)"),
        ({**expected, "b": ["float32"]}, "b is float32 of shape (); expected float64 of shape ()"),
        ({"a": ["float32", 2, 3]}, "b is missing; expected float64 of shape ()"),
        ({**expected, "d": ["int8", 1]}, "d is int8 of shape (1,); expected missing"),
    ]:
        assert difference(found, expected) == text


def test_a_very_long_name_is_cut():
    assert difference({"x" * 101: ["int8"]}, {}).startswith("x" * 100 + " is int8")


def test_whose_weights_can_be_averaged():
    """The layout decides: what a network computes with its weights may differ."""
    assert Architecture(Activated(torch.tanh)).averages_with(Architecture(Activated(F.relu, scale=2.0)))
    assert not Architecture(cnn(0)).averages_with(Architecture(cnn(0, dtype=torch.float32)))
    assert not Architecture(cnn(0)).averages_with(Architecture(cnn(0, width=5)))


# Digests


class Holding(nn.Module):
    def __init__(self, thing):
        super().__init__()
        self.layer, self.thing = nn.Linear(2, 2), thing


def test_what_decides_what_a_network_computes_is_in_its_digest():
    things = [
        {},
        (),
        {"a": 1, "b": "x"},
        {"b": 1, "a": "x"},
        1,
        2,
        1.5,
        True,
        "1",
        None,
        torch.tanh,
        F.relu,
        nn.Linear,
        torch.float32,
        (1, 2),
        [1, 2],
        {"a": 1},
        {1},
    ]
    digests = [Architecture(Holding(thing)).digest for thing in things]
    assert len(set(digests)) == len(things)
    assert digests == [Architecture(Holding(thing)).digest for thing in things]
    assert Architecture(cnn(0)).digest == Architecture(cnn(1)).digest != Architecture(mlp(0)).digest


def test_a_digest_holds_nothing_that_differs_from_process_to_process():
    """The order of a set and the address of an object do."""
    assert Architecture(Holding({"a", "b", "c"})).digest == Architecture(Holding({"c", "b", "a"})).digest
    assert Architecture(Holding(object())).digest == Architecture(Holding(object())).digest
    code = "from tests.core.test_architecture import *; print(Architecture(Holding({'a', 'b', F.relu})).digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {Architecture(Holding({"a", "b", F.relu})).digest}


def test_the_order_in_which_a_dict_was_filled_does_not_matter():
    one, other = Holding({"a": 1, "b": "x", "c": None}), Holding({"c": None, "b": "x", "a": 1})
    assert Architecture(one) == Architecture(other)
    assert Architecture(one).digest == Architecture(other).digest


def test_an_empty_dict_is_not_nothing():
    assert len({Architecture(Holding(thing)) for thing in ({}, (), [], None, set())}) == 5
