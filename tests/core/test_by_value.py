"""What users write is compared by what it is made of."""

from __future__ import annotations

import io
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from potluck.bench.transforms import WAYS, Compose
from potluck.core.by_value import value_of


def times(factor):
    return lambda x: x * factor


def defaulting(factor):
    def scaled(x, by=factor, *, more=factor):
        return x * by * more

    return scaled


class Holding:
    def __init__(self, **parts):
        self.__dict__.update(parts)

    def __call__(self, x):
        return x


class Buffered(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.register_buffer("value", torch.tensor(value))


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


MAKERS = {
    "a closure": times,
    "a closure over a tensor": lambda value: times(torch.tensor([value, 2.0])),
    "a closure over an array": lambda value: times(np.array([value, 2.0])),
    "defaults": defaulting,
    "a partial": lambda value: partial(max, value, key=times(value)),
    "attributes": lambda value: Holding(a=[1, {"b": (value,)}]),
    "slots": Slotted,
    "buffers": Buffered,
    "a method": lambda value: Holding(a=value).__call__,
    "a number of numpy's": np.float32,
    "a generator of numpy's": lambda value: Holding(random=np.random.default_rng(int(value))),
    "several": lambda value: Compose([times(1), times(value)]),
    "a set": lambda value: {value, "x"},
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_made_of_equal_parts_is_equal(make):
    one, same, other = (value_of(make(value)) for value in (1.0, 1.0, 3.0))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert not one.odd


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_ten_ways_of_writing_a_transform_are_each_equal_to_themselves(make):
    assert value_of(make()) == value_of(make())


def test_the_ten_ways_differ_from_each_other():
    assert len({value_of(make()) for make in WAYS.values()}) == len(WAYS)


def test_code_counts_and_where_it_stands_does_not():
    assert value_of(lambda x: x + 1) != value_of(lambda x: x + 2)
    assert value_of(lambda x: x + 1) != value_of(lambda x: x - 1)
    one = lambda x: x + 1  # noqa: E731
    same = lambda x: x + 1  # noqa: E731
    assert value_of(one) == value_of(same)


LEVEL = 1.0


def above(x):
    return x > LEVEL


def test_functions_of_libraries_differ_and_methods_of_built_in_objects_differ_with_what_they_are_of():
    assert value_of(math.sin) == value_of(math.sin)
    assert value_of(math.sin) != value_of(math.cos)
    assert value_of(torch.neg) != value_of(torch.abs)
    assert value_of([1].count) == value_of([1].count)
    assert value_of([1].count) != value_of([2].count)
    assert value_of([1].count) != value_of([1].index)
    assert value_of(dict.fromkeys) != value_of(int.from_bytes)


def test_the_data_that_a_function_reads_counts(monkeypatch):
    before = value_of(above)
    assert value_of(above) == before
    monkeypatch.setitem(globals(), "LEVEL", 2.0)
    assert value_of(above) != before


LEVELS = [1.0, 2.0]


def level(x):
    return x


def between(x):
    return (x > LEVELS[0]) & (level(x) < LEVELS[1])


def test_of_what_a_function_reads_data_count_by_value_and_functions_by_themselves(monkeypatch):
    before = value_of(between)
    monkeypatch.setitem(globals(), "LEVELS", [1.0, 2.0])
    assert value_of(between) == before
    monkeypatch.setitem(globals(), "level", lambda x: x)
    assert value_of(between) != before


def test_classes_and_types_differ():
    assert value_of(int) != value_of(str)
    assert value_of(times(torch.float32)) != value_of(times(torch.float64))
    assert value_of(times(Holding)) != value_of(times(Slotted))
    assert value_of(times(Holding)) == value_of(times(Holding))


def test_kinds_of_numbers_differ():
    assert len({value_of(times(value)) for value in (1, 1.0, True, 0.0, -0.0)}) == 5
    assert value_of(float("nan")) == value_of(float("nan"))


def test_what_cannot_be_taken_apart_is_equal_to_itself_alone_and_is_named():
    with open(__file__) as one, open(__file__) as other:
        file, found = Holding(file=one), value_of(Holding(file=one))
        assert found == value_of(file)
        assert found != value_of(Holding(file=other))
        assert found.odd == ("TextIOWrapper",)
    assert value_of(Holding(file=io.StringIO("a"))) == value_of(Holding(file=io.StringIO("a")))


def test_what_holds_itself_has_an_end():
    def looped(value):
        found = [value]
        found.append(found)
        return found

    assert value_of(looped(1)) == value_of(looped(1))
    assert value_of(looped(1)) != value_of(looped(2))
