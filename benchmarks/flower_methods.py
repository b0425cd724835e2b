"""Methods that do nothing but cost something, for measuring what a round over Flower costs besides."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar

import torch

import potluck
from potluck.federation.method import Steps
from potluck.federation.server import Answers, Server


class Busy(potluck.Method):
    """A round that takes some seconds at each participant, and sends nothing."""

    late_joining: ClassVar[bool] = True

    seconds: float = 0.0

    def round(self, me: potluck.Participant) -> Steps:
        time.sleep(self.seconds)
        yield from ()
        return None


class Ship(potluck.Method):
    """Each participant sends a tensor of that many megabytes, and gets one as large back."""

    sends: ClassVar[Mapping[str, str]] = {"ship": "zeros"}

    megabytes: int = 1

    def round(self, me: potluck.Participant) -> Steps:
        # Not all zeros: Flower sends pieces that are the same only once.
        numbers = torch.rand(self.megabytes * 250_000, generator=me.generator("cargo"))
        yield potluck.Exchange("ship", potluck.Payload({"cargo": numbers}))
        return None

    @potluck.exchange(lambda self, server, sender: potluck.Form({"cargo": potluck.Like((self.megabytes * 250_000,))}))
    def ship(self, server: Server, answers: Answers) -> dict[str, potluck.Payload]:
        """Sends each one's cargo back."""
        return {sender: potluck.Payload({"cargo": payload["cargo"] + 1}) for sender, payload in answers}
