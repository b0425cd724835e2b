"""Every method's history, number by number: whatever changes in the code, these results stay.

The texts that random numbers derive from are part of every result. To rename one by accident would change all results
that were ever published; here it shows at once. ``python -m tests.integration.test_pinned_histories`` writes the
numbers anew, for a change that is meant to change them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import potluck
from potluck.methods import FD, MHAT, CoFED, DraftFed, FedAvg, FedIN, Local, PerHeFed
from tests.tables import PLAN, deep_cnn, made_data, participants

PINNED = Path(__file__).with_suffix(".json")

METHODS = {
    "Local": Local(),
    "FedAvg": FedAvg(),
    "FedAvg layerwise": FedAvg(aggregation="layerwise", batchnorm="local"),
    "FD": FD(),
    "CoFED": CoFED(update_batch_size=16),
    "DraftFed": DraftFed(samples=20, draft_batch_size=16),
    "MHAT": MHAT(server_plan=PLAN),
    "FedIN": FedIN(pairs=6),
    "FedIN with noise": FedIN(pairs=6, alleviation="exact", noise=0.8),
    "PerHeFed": PerHeFed(intra=0.5, offsets="random"),
}

COLUMNS = ("round", "participant", "loss", "accuracy", "bytes_up", "bytes_down", "took_part")


def shifted(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """An augmentation: its random numbers are part of the result."""
    return x + 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype)


def small_cnn(input_shape: tuple[int, ...], classes: int) -> torch.nn.Module:
    """Built under the federation's seed, whose initial weights are part of the result."""
    return deep_cnn(None, 1, classes)


def play(name: str, engine: str) -> list[dict[str, Any]]:
    blocks = [1, 1, 1, 1] if name == "FedAvg" else [1, 2, 1, 2]
    models = [small_cnn, *(deep_cnn(seed, count) for seed, count in enumerate(blocks[1:], start=1))]
    plan = PLAN.model_copy(update={"augment": shifted})
    federation = potluck.Federation(
        participants(models, plan=plan, validation=0.2),
        METHODS[name],
        public=made_data(30, 90),
        test=made_data(40, 91),
        seed=7,
        engine=engine,
        participation=0.75,
    )
    return [{column: row[column] for column in COLUMNS} for row in federation.run(3).rows()]


@pytest.mark.parametrize("engine", ["serial", "batched"])
@pytest.mark.parametrize("name", METHODS)
def test_the_history_is_the_pinned_one(name: str, engine: str) -> None:
    pinned, found = json.loads(PINNED.read_text())[name], play(name, engine)
    assert len(found) == len(pinned)
    for row, expected in zip(found, pinned, strict=True):
        # The last bits of a loss depend on the processor; everything else is exact.
        assert row.pop("loss") == pytest.approx(expected.pop("loss"), rel=1e-5)
        assert row == expected


if __name__ == "__main__":
    torch.set_num_threads(1)
    PINNED.write_text(json.dumps({name: play(name, "serial") for name in METHODS}, indent=0) + "\n")
