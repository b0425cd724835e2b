"""What a network's code does besides computing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.learners.traits import Traits, probed

SAMPLES = Samples({"x": torch.ones(4, 3)})


class Counting(nn.Linear):
    """Counts in an attribute how often it ran."""

    times = 0

    def forward(self, x):
        self.times += 1
        return super().forward(x)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Linear(3, 2), Traits()),
        (nn.Sequential(nn.Dropout(), nn.Linear(3, 2)), Traits(draws=True)),
        (Counting(3, 2), Traits(changes_itself=True)),
        (nn.Linear(5, 2), Traits()),  # cannot run: that shows where it is trained
    ],
)
def test_it_is_seen_by_running_a_copy(module, expected):
    before = {name: entry.clone() for name, entry in module.state_dict().items()}
    assert probed(module, SAMPLES, Plan(), torch.float32) == expected
    assert all(torch.equal(entry, before[name]) for name, entry in module.state_dict().items())
    assert getattr(module, "times", 0) == 0
