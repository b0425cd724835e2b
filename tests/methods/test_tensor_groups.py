from __future__ import annotations

import torch

from potluck.core.payload import Payload
from potluck.methods.tensor_groups import group_of, under


def test_what_is_put_under_a_group_is_found_there_again():
    weights, control = {"a": torch.zeros(2), "c": torch.ones(1)}, {"a": torch.ones(2)}
    payload = Payload({**weights, **under("c", control)})
    assert sorted(payload.tensors) == ["a", "c", "c/a"]
    assert group_of(payload, "c").keys() == {"a"}
    assert group_of(payload, "c")["a"].equal(control["a"])
    assert group_of(payload, "d") == {}
