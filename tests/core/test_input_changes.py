"""Where a transform can run is found by trying it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from potluck.bench.transforms import WAYS
from potluck.core.input_changes import InputChanges, TransformKind, UnruledError, kind_of

X = torch.rand(4, 3, 5)
PIXELS = (255 * X).byte()
PIXELS[:, 0, 0] = 255  # as in most pictures, so that the largest value of any two is the same
MATRIX = torch.randn(15, 7)


def branching(x):
    return x / 255 if x.max().item() > 1 else x


EACH = {
    **{name: make() for name, make in WAYS.items() if name != "v2"},  # which refuses bytes, as torchvision's does
    "a matrix product": lambda x: x.flatten(1).float() @ MATRIX,
    "a norm of each sample": lambda x: x / x.flatten(1).float().norm(dim=1)[:, None, None],
    "a look at a value": branching,
    "numpy": lambda x: torch.from_numpy(np.sqrt(x.numpy().astype("float64"))),
    "several outputs": lambda x: {"a": x + 1, "b": (x[:, 0], x.sum((1, 2)))},
    "nothing": lambda x: x,
}
BATCH = {
    "by the largest value": lambda x: x / x.max(),
    "by the mean": lambda x: x.float() - x.float().mean(),
    "in another order": lambda x: x.flip(0),
    "squeezed": lambda x: x.squeeze(0),
    "of two at least": lambda x: x.float() - x[1],
    "fewer": lambda x: x[:2],
}
DRAWS = {"torch": lambda x: x + torch.rand(()), "numpy": lambda x: x + np.random.normal()}


@pytest.mark.parametrize("inputs", [X, PIXELS], ids=["floats", "bytes"])
@pytest.mark.parametrize(
    ("transform", "kind"),
    [(one, kind) for kind, these in zip(TransformKind, (DRAWS, EACH, BATCH), strict=True) for one in these.values()],
    ids=[*DRAWS, *EACH, *BATCH],
)
def test_the_kind_of_a_transform(transform, kind, inputs):
    given = inputs.clone()
    assert kind_of(transform, given) is kind
    assert torch.equal(given, inputs)


def test_several_inputs_are_tried_together():
    x = {"ids": torch.arange(8).reshape(4, 2), "mask": torch.rand(4, 2) > 0.5}
    assert kind_of(lambda x: {"ids": x["ids"] * x["mask"]}, x) is TransformKind.EACH
    assert kind_of(lambda x: {"ids": x["ids"] - x["ids"].min()}, x) is TransformKind.BATCH


def test_what_writes_into_its_inputs_is_refused():
    with pytest.raises(UnruledError, match="writes into the inputs"):
        kind_of(lambda x: x.sub_(0.5), X.clone())


def test_not_a_number_is_equal_to_itself():
    assert kind_of(lambda x: (x - 0.5).log(), X) is TransformKind.EACH


class Scaling:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by


def test_functions_that_were_changed_are_noticed():
    transform = Scaling(2)
    found = InputChanges(transform, None)
    assert not found.outdated, "nothing was compared yet"
    before = found.value
    assert not found.outdated
    transform.by = 3
    assert found.outdated
    assert InputChanges(transform, None).value != before
