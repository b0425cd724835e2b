"""FedRolex (Alam et al., 2022): narrow networks are a window of a wide one that rolls on each round."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from potluck.core.payload import LazyReplies, Payload
from potluck.core.requests import Exchange, Request
from potluck.core.schema import Schema
from potluck.federation.method import exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.width_scaling import WidthScaling
from potluck.methods.windows import WindowPlace


class FedRolex(WidthScaling):
    """Section 3, equation 2 and Algorithm 1: in round j a layer's window of K channels begins with channel j mod K.

    Rounds count from 0, the window wraps round, and a network as wide as the whole is the whole. As many channels as a
    participant's network has are in its window (⌊β·K⌋ in the paper, ⌈β·K⌉ in the authors' code).

    In the paper the global network alone answers, so one download a round is enough. Here participants answer, too:
    after a round each has the new values of the window that it has trained, and those whose window rolls fetch the next
    one when the next round begins. With ``left_with="next"`` they receive that at once.

    The paper says that the window advances by one each round. In the authors' code it moves the other way, and channels
    can also be shuffled, at every round but each 512th, where the reverse was meant; the latter is left out here.

    Args:
        left_with: which window a participant has after a round, the "trained" one (the default), or the "next", which
            it has not trained, for one download a round.
        direction: where the window rolls, "forward" (the default), as in the paper, or "backward", as in the code.
        weighting: "uniform" (the default) or "samples".
        batchnorm: "average" (the default): statistics and affine parameters are averaged over their holders; "local
            statistics": the former stay at home; "local": both do, and meet another window's features each round.
        masked_classes: as in ``HeteroFL``; by default True.
        model: the whole network, built at the server, by which all start; by default None, for the widest
            participants' weights.
    """

    left_with: Literal["trained", "next"] = "trained"
    direction: Literal["forward", "backward"] = "forward"

    def places(self, server: Server, sender: str) -> Mapping[str, WindowPlace]:
        return self.rolled(server, sender, server.round)

    def rolled(self, server: Server, sender: str, round: int) -> Mapping[str, WindowPlace]:
        """A participant's windows in a round, the first of which is 1."""
        start = max(0, round - 1) * (1 if self.direction == "forward" else -1)
        layout, whole = server.state["layouts"][sender], server.state["global"]
        places, before = {}, (1, 1)
        for name, at in super().places(server, sender).items():
            sizes = list(zip(layout[name][1:], whole[name].shape, strict=True))
            blocks = [1, _block(sizes[1], before)] if len(sizes) == 2 else [1] * len(sizes)
            places[name] = [
                positions(*size, start, block) if isinstance(first, int) else first
                for first, size, block in zip(at, sizes, blocks, strict=True)
            ]
            before = sizes[0] if len(sizes) > 1 else before
        return places

    def catch_up(self, me: Participant) -> Generator[Request, Any, Payload | None]:
        """A participant whose window has rolled on fetches it, as one does that sat out."""
        if me.state["round"] == me.round - 1 and not me.state["rolls"]:
            return None
        news: Payload = yield Exchange("fetch", Payload())
        self.take(me, news)
        return news

    def take(self, me: Participant, reply: Payload) -> None:
        super().take(me, reply)
        me.state["rolls"] = bool(reply.facts.get("rolls"))

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """A window; at the end of a round also whether it rolls on."""
        return replace(self.entries_schema(me), facts={"rolls": bool} if sent.tensors else {})

    def reply(self, server: Server, sender: str) -> Payload:
        ahead = 1 if self.left_with == "next" else 0
        window = self.entries(server, sender, self.rolled(server, sender, server.round + ahead))
        whole, layout = server.state["global"], server.state["layouts"][sender]
        narrow = any(list(whole[name].shape) != like[1:] for name, like in layout.items())
        return Payload(window, {"rolls": narrow and self.left_with == "trained"})

    @exchange(lambda self, server, sender: Schema())
    def fetch(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Sends the window of this round."""
        return LazyReplies([s for s, _ in answers], lambda sender: Payload(self.entries(server, sender)))


def positions(own: int, whole: int, start: int, block: int = 1) -> int | Tensor:
    """Equation 2: as many of the whole's channels as are one's own, from ``start`` on, round the end.

    Args:
        own: how many values one has.
        whole: how many the whole has.
        start: the first channel.
        block: how many values belong to a channel, where features were flattened.
    """
    if own == whole:
        return 0
    channels = (start + torch.arange(own // block)) % (whole // block)
    return (channels[:, None] * block + torch.arange(block)).flatten()


def _block(features: tuple[int, int], before: tuple[int, int]) -> int:
    """How many of a linear layer's features are of one channel of the layer before: its own and the whole's sizes."""
    (own, whole), (channels, all_channels) = features, before
    block = whole // max(1, all_channels)
    return block if (own, whole) == (channels * block, all_channels * block) else 1
