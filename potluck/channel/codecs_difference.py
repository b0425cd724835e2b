"""The codec that sends what has changed since the participant last received the same tensors."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from potluck.channel.codec import Coding, PayloadCodec
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload


class Difference(PayloadCodec):
    """Sends weights as their change from those that the participant last received from the server, which both know.

    So the codecs after it work on changes, as compression and clipping are meant to: v − received. A tensor of whose
    name and shape nothing was received in this round or the one before is sent whole, and the codecs after this one
    pass over it, but for ``Compress``. It must be the first codec.
    """

    place: ClassVar[Literal["first"]] = "first"
    remembers_received: ClassVar[bool] = True

    def encode(self, payload: Payload, coding: Coding) -> Payload:
        changed: dict[str, Tensor] = {}
        since: dict[str, list[str]] = {}
        for name, tensor in payload.tensors.items():
            known = coding.received.get(name)
            if known is not None and tensor.is_floating_point() and _alike(known.tensor, tensor):
                changed[name] = tensor - known.tensor
                since.setdefault(known.stamp, []).append(name)
        coding.whole.update(set(payload.tensors) - set(changed))
        if coding.route.direction == "down":  # the next change is from what will have arrived
            coding.corrected.update(changed)
        if not changed:
            return payload
        return Payload({**payload.tensors, **changed}, {**payload.facts, coding.mark: since})

    def decode(self, payload: Payload, coding: Coding) -> Payload:
        if coding.mark not in payload.facts:
            return payload
        facts = dict(payload.facts)
        tensors = dict(payload.tensors)
        since = facts.pop(coding.mark)
        if not isinstance(since, dict) or not all(isinstance(names, list) for names in since.values()):
            raise PayloadError("what it changes cannot be read; expected names")
        for stamp, names in since.items():
            for name in names:
                known, change = coding.received.get(str(name)), payload.tensors.get(str(name))
                if known is None or change is None or known.stamp != stamp or not _alike(known.tensor, change):
                    raise PayloadError(f"it changes {str(name)[:200]!r} as of {stamp[:200]!r}, which is not known here")
                tensors[name] = known.tensor + change
        return Payload(tensors, facts)


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype
