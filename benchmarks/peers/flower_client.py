"""The client of Flower's simulation, in a file that Ray's workers can import. Each worker reads the data once.

Batches are cut from tensors, as by the other contestants; or come from a DataLoader, as in Flower's tutorials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from shared import Shared
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

app = ClientApp()


@cache
def read(folder: str) -> Shared:
    """The federation, once for each process."""
    return Shared.read(Path(folder))


def cut(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches as slices of tensors."""
    return ((x[rows], y[rows]) for rows in torch.randperm(len(x)).split(size))


def loaded(x: Tensor, y: Tensor, size: int) -> Iterable[list[Tensor]]:
    """Batches from a DataLoader."""
    return DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One local epoch from the weights received."""
    config, number = message.content["config"], int(context.node_config["partition-id"])
    shared = read(config["folder"])
    settings, x, y = shared.settings, shared.x[number], shared.y[number]
    model = shared.model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = shared.optimizer()(model.parameters(), lr=settings["lr"])
    model.train()
    for inputs, labels in (loaded if config["loader"] else cut)(x, y, settings["batch_size"]):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    answer = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(x)})}
    return Message(content=RecordDict(answer), reply_to=message)
