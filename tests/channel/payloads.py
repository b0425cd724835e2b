"""A payload of everything that codecs meet, for tests."""

from __future__ import annotations

from typing import Any

import torch

from potluck.channel.codec import Coding
from potluck.channel.route import Direction, Route
from potluck.core.payload import Payload

PAYLOAD = Payload(
    {
        "weight": torch.randn(12, 10, generator=torch.Generator().manual_seed(1)),
        "precise": torch.randn(71, dtype=torch.float64, generator=torch.Generator().manual_seed(2)),
        "bias": torch.arange(10.0),
        "count": torch.arange(100),
        "flag": torch.tensor(True),
    },
    {"samples": 30},
)


def route(direction: Direction = "up", round: int = 1, exchange: str = "weights", participant: str = "p0") -> Route:
    """The first payload of an exchange."""
    return Route(5, participant, round, exchange, direction)


def coding(**more: Any) -> Coding:
    """What a codec knows that is alone."""
    return Coding(**{"route": route(), "codec": "0 Alone", "limit": 10**6, **more})
