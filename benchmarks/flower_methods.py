"""Methods that only take time or send bytes, for measuring what a round over Flower costs besides."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar

import torch

import potluck
from potluck.federation.method import Steps
from potluck.federation.server import Answers, Server


class Busy(potluck.Method):
    """A round that takes some time at each participant, and sends nothing.

    Args:
        seconds: how long it takes; by default no time.
    """

    late_joining: ClassVar[bool] = True

    seconds: float = 0.0

    def round(self, me: potluck.Participant) -> Steps:
        time.sleep(self.seconds)
        yield from ()
        return None


class Ship(potluck.Method):
    """Each participant sends a large tensor, and gets one as large back.

    Args:
        megabytes: how large it is; by default 1.
    """

    sends: ClassVar[Mapping[str, str]] = {"ship": "zeros"}

    megabytes: int = 1

    def round(self, me: potluck.Participant) -> Steps:
        # Not all zeros: Flower sends pieces that are the same only once.
        numbers = torch.rand(self.megabytes * 250_000, generator=me.generator("values"))
        yield potluck.Exchange("ship", potluck.Payload({"values": numbers}))
        return None

    @potluck.exchange(
        lambda self, server, sender: potluck.Schema({"values": potluck.TensorSpec((self.megabytes * 250_000,))})
    )
    def ship(self, server: Server, answers: Answers) -> dict[str, potluck.Payload]:
        """Sends each one's values back."""
        return {sender: potluck.Payload({"values": payload["values"] + 1}) for sender, payload in answers}
