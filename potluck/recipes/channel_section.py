"""The channel in a file: which codecs, in which direction, and for which exchanges others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from potluck.channel.channel import Audit, Channel
from potluck.channel.codec import PayloadCodec
from potluck.channel.codecs import CODECS
from potluck.channel.limits import Limits
from potluck.core.errors import SettingsError, nearest
from potluck.core.settings import Mistake
from potluck.recipes.references import CodecNamed, Named
from potluck.recipes.validation import Section, refuse


class ExchangeSection(Section):
    """The codecs of one exchange.

    Args:
        up: those of what participants send; by default as for all exchanges.
        down: those of the server's replies; by default as for all exchanges.
    """

    model_config = ConfigDict(title="an exchange's codecs")

    up: list[CodecNamed] | None = None
    down: list[CodecNamed] | None = None


class ChannelSection(Section):
    """The codecs of payloads.

    Args:
        up: those of what participants send, in the order in which they encode; by default none.
        down: those of the server's replies; by default none.
        exchanges: other codecs for single exchanges, by name; by default none.
    """

    model_config = ConfigDict(title="channel")

    up: list[CodecNamed] = Field(default_factory=list)
    down: list[CodecNamed] = Field(default_factory=list)
    exchanges: dict[str, ExchangeSection] = Field(default_factory=dict)

    def build(self, limits: Limits | None = None, audit: Audit | None = None) -> Channel:
        """The channel, with other limits, and reported to whoever audits."""
        exchanges = {
            name: {way: _built(getattr(own, way)) for way in ("up", "down") if getattr(own, way) is not None}
            for name, own in self.exchanges.items()
        }
        return Channel(limits or Limits(), _built(self.up), _built(self.down), exchanges, audit)  # type: ignore[arg-type]

    def misnamed(self, method: str, exchanges: Collection[str]) -> list[Mistake]:
        """The exchanges that a method does not have, each with its place."""
        return [
            (("exchanges", name), f"{method} has no exchange {name!r}.{nearest(name, exchanges)}")
            for name in self.exchanges
            if name not in exchanges
        ]

    def spelled_out(self) -> ChannelSection:
        """The same with the settings that are left to their defaults."""
        exchanges = {
            name: {
                way: codecs if codecs is None else _spelled_out(codecs)
                for way, codecs in (("up", own.up), ("down", own.down))
            }
            for name, own in self.exchanges.items()
        }
        settings = {"up": _spelled_out(self.up), "down": _spelled_out(self.down), "exchanges": exchanges}
        return ChannelSection.model_validate(settings)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is coded."""
        return not (self.up or self.down or self.exchanges)

    @model_validator(mode="after")
    def _in_order(self) -> ChannelSection:
        try:
            self.build()
        except SettingsError as error:
            refuse([((), str(error))])
        return self


def _spelled_out(codecs: Sequence[Named]) -> list[dict[str, Any]]:
    pairs = zip(codecs, _built(codecs), strict=True)
    return [{"name": named.name, "settings": codec.model_dump(mode="json", fallback=str)} for named, codec in pairs]


def _built(codecs: Sequence[Named]) -> list[PayloadCodec]:
    return [CODECS[codec.name](**codec.settings) for codec in codecs]
