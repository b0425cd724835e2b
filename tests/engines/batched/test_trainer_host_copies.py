"""No step copies from the host, and the guard that says so sees every form of such a copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from potluck.bench.transforms import WAYS
from potluck.core.objectives import cross_entropy
from potluck.core.plan import Plan
from potluck.data import Crop, Cutout, Flip, Normalize
from tests.host_copies import META, host_copies, in_a_step
from tests.jobs import REQUESTS, jobs, trainings

WEIGHTS = torch.ones(3, dtype=torch.float64)


def with_weights(weigh):
    """Cross entropy times what is made where the logits are."""

    def objective(net, batch, given):
        return cross_entropy(net, batch, given) * weigh(net(batch["x"])).sum()

    return objective


COPIES = {
    "to": lambda x: WEIGHTS.to(x.device),
    "tensor": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "a single tensor": lambda x: torch.tensor(2.0, device=x.device),
    "as_tensor": lambda x: torch.as_tensor([1.0, 2.0], device=x.device),
    "numpy": lambda x: torch.as_tensor(np.ones(3), device=x.device),
    "copy": lambda x: torch.empty(3, dtype=torch.float64, device=x.device).copy_(WEIGHTS),
    "an index": lambda x: x[:, torch.tensor([0, 1])],
    "a list": lambda x: x[:, [0, 1]],
}
NONE = {
    "a number": lambda x: x * 2.0,
    "a single tensor of the host's": lambda x: x * torch.tensor(2.0),
    "made there": lambda x: torch.arange(3, device=x.device) + torch.full((3,), 0.5, device=x.device),
    "cast": lambda x: x.float(),
    "a slice": lambda x: x[:, 1:],
}


@pytest.mark.parametrize("weigh", COPIES.values(), ids=COPIES)
def test_the_guard_sees_a_copy(weigh):
    with host_copies() as found:
        weigh(torch.empty(4, 3, dtype=torch.float64, device=META))
    assert found


@pytest.mark.parametrize("name", ["to", "tensor", "an index"])
def test_the_guard_sees_a_copy_inside_of_a_step(name):
    assert in_a_step(trainings(with_weights(COPIES[name])))


@pytest.mark.parametrize("weigh", NONE.values(), ids=NONE)
def test_the_guard_sees_no_copy_where_there_is_none(weigh):
    with host_copies() as found:
        weigh(torch.empty(4, 3, dtype=torch.float64, device=META))
    assert found == []


@pytest.mark.parametrize("work", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize(
    "plan", [{"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"}, {"max_grad_norm": 1.0}], ids=str
)
def test_no_step_copies_from_the_host(work, plan):
    assert in_a_step(jobs(work, lambda i: Plan(batch_size=8, **plan), sizes=(20, 20, 20))) == []


@pytest.mark.parametrize("way", [*WAYS.values(), lambda: Normalize(0.1, 0.2), lambda: lambda x: x / x.max()])
def test_no_transform_is_in_the_step(way):
    assert in_a_step(trainings(transform=way())) == []
    assert in_a_step(trainings(transform=way(), augment=[Crop(1), Flip()])) == []


@pytest.mark.parametrize("one", [Crop(), Flip(), Cutout(), Normalize(0.1, 0.2), Normalize([1, 2, 3], [4, 5, 6])])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_what_comes_with_potluck_copies_nothing_itself(one, dtype):
    x = torch.empty(5, 3, 8, 8, dtype=dtype, device=META)
    if isinstance(one, Normalize):
        one(x)  # numbers are brought over once
        drawn = None
    else:
        drawn = one.draw(5, torch.Generator()).to(META)
    with host_copies() as found:
        changed = one(x) if drawn is None else one.apply(x, drawn)
    assert changed.shape == x.shape
    assert found == []
