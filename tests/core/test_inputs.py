from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from potluck import ModelError, Samples
from potluck.core.inputs import (
    InputKind,
    alike,
    call_with,
    describe,
    flat,
    kinds_key,
    logits_of,
    nested,
    shapes,
    size_of,
)

IDS = torch.tensor([[1, 2], [3, 4], [5, 6]])
MASK = torch.tensor([[True, True], [True, False], [True, True]])


@pytest.mark.parametrize(
    ("inputs", "names"),
    [(IDS, ["x"]), ({"ids": IDS, "mask": MASK}, ["x.ids", "x.mask"]), ((IDS, MASK), ["x.0", "x.1"])],
    ids=["one", "by name", "in order"],
)
def test_inputs_become_columns_and_come_back(inputs, names):
    columns = flat(inputs)
    assert list(columns) == names
    back = nested({**columns, "y": torch.zeros(3)})
    assert set(back) == {"x", "y"}
    assert type(back["x"]) is type(inputs)
    assert flat(back["x"]) == columns
    assert size_of(nested({**columns, "y": torch.zeros(3)})) == 3


def test_more_than_ten_inputs_keep_their_order():
    inputs = tuple(torch.full((1,), number) for number in range(12))
    assert [int(part) for part in nested(dict(reversed(flat(inputs).items())))["x"]] == list(range(12))


def test_a_module_is_called_with_names_or_in_order():
    assert call_with(IDS) == ((IDS,), {})
    assert call_with({"ids": IDS}) == ((), {"ids": IDS})
    assert call_with((IDS, MASK)) == ((IDS, MASK), {})


@pytest.mark.parametrize("output", [MASK, SimpleNamespace(logits=MASK), {"logits": MASK, "loss": IDS}, (MASK, IDS)])
def test_logits_are_found_in_what_modules_return(output):
    assert logits_of(output) is MASK


def test_an_output_without_logits_is_an_error_that_says_what_it_holds():
    with pytest.raises(ModelError, match=r"returns a dict with \['hidden'\]; expected its logits"):
        logits_of({"hidden": IDS})
    with pytest.raises(ModelError, match="returns a str"):
        logits_of("no")


def test_kinds_are_told_in_words_and_compared():
    picture = {"x": InputKind.of(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))}
    several = {"x.ids": InputKind.of(IDS), "x.mask": InputKind.of(MASK)}
    assert describe(picture) == "shape (3, 8, 8) in bytes"
    assert describe(several) == "ids: shape (2,), mask: shape (2,)"
    assert (shapes(picture), shapes(several)) == ((3, 8, 8), {"ids": (2,), "mask": (2,)})
    assert alike({"x": InputKind((4,), "floats")}, {"x": InputKind((4,), "integers")})
    assert not alike(picture, {"x": InputKind((3, 8, 8), "floats")})


def test_samples_of_several_inputs():
    samples = Samples.of({"ids": IDS, "mask": MASK}, y=torch.tensor([0, 1, 0]))
    assert len(samples) == 3
    assert set(samples.x) == {"ids", "mask"}
    taken = samples.take(torch.tensor([2, 0]))
    assert taken.x["ids"].tolist() == [[5, 6], [1, 2]]
    assert set(taken.inputs().columns) == {"x.ids", "x.mask"}
    both = Samples.concat([samples, taken.inputs().with_targets(soft=torch.ones(2, 1))])
    assert both.x["mask"].tolist() == [*MASK.tolist(), *MASK[[2, 0]].tolist()]
    assert both.y.tolist() == [0, 1, 0, -1, -1]
    assert both.at(slice(3, None))["ids"].tolist() == [[5, 6], [1, 2]]
    assert samples.same_inputs(samples.with_targets(y=torch.ones(3)))
    assert not samples.same_inputs(samples.take(torch.arange(3)))


def test_the_key_of_a_kind_holds_names_shapes_and_numbers():
    several = {"x.mask": InputKind((3,), "integers"), "x.ids": InputKind((3,), "integers")}
    assert kinds_key(several) == kinds_key(dict(reversed(several.items())))
    for other in (InputKind((4,), "integers"), InputKind((3,), "floats")):
        assert kinds_key(several) != kinds_key({**several, "x.ids": other})
