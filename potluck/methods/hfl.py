"""HFL (Lu et al., 2021): layers of different width map to a global layer so that all of it is covered evenly."""

from __future__ import annotations

from typing import Literal

from potluck.core.payload import Payload
from potluck.federation.agreement import agreed
from potluck.federation.method import exchange
from potluck.federation.server import Answers, Server
from potluck.methods.perhefed import STRUCTURE, Numbers, PerHeFed, Ratio


class HFL(PerHeFed):
    """Model mapping, as PerHeFed generalises it: everybody shares all its convolutions, and all are equally deep.

    The k-th convolution maps to the k-th global one, which has the largest size seen. Its filters begin where, one
    participant after the other, the fewest others' are, so that all global filters are updated by about as many.
    Channels and kernels begin at the origin. Means are PerHeFed's: over those who cover a position, weighted by their
    non-zero parameters.

    This is what PerHeFed's paper (table 1 and section 2) makes of HFL, whose own text was not at hand.

    Args:
        inter: the share of layers that a participant shares; by default 1, all of them.
        intra: the share of filters in each of them; by default 1.
        offsets: as in ``PerHeFed``; by default "even".
        choices: as in ``PerHeFed``; by default nothing.
    """

    inter: Ratio = 1.0
    offsets: Literal["zero", "random", "even"] | dict[str, Numbers] = "even"

    @exchange(lambda self, server, sender: STRUCTURE)
    def structure(self, server: Server, answers: Answers) -> Payload:
        """The global model, for participants that share equally many layers."""
        payloads = dict(answers)
        depths = {sender: len(payload["shapes"]) for sender, payload in payloads.items()}
        common = agreed(server, depths, _other_depth)
        return super().structure(server, ((s, payload) for s, payload in payloads.items() if depths[s] == common))


def _other_depth(found: int, expected: int) -> str:
    return f"it shares {found} convolutions, the others {expected}; HFL maps networks of equal depth, PerHeFed of any"
