"""A virtual clock: what a round would take on devices of given speed, from the steps taken and the bytes sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from potluck.core.errors import SettingsError, nearest
from potluck.core.settings import Settings


class Device(Settings):
    """How fast one participant computes and communicates.

    Args:
        steps_per_second: optimizer steps that it takes in a second, with its own model and batch size.
        upload: bytes that it sends in a second.
        download: bytes that it receives in a second.
        latency: seconds that each message takes besides; by default 0.
    """

    model_config = ConfigDict(title="a device")

    steps_per_second: float = Field(gt=0)
    upload: float = Field(gt=0)
    download: float = Field(gt=0)
    latency: float = Field(0.0, ge=0)


DEVICES = {
    "phone": Device(steps_per_second=5, upload=1.25e6, download=5e6, latency=0.05),
    "laptop": Device(steps_per_second=20, upload=2.5e6, download=12.5e6, latency=0.02),
    "server": Device(steps_per_second=200, upload=125e6, download=125e6, latency=0.001),
}
"""Named profiles, round numbers to begin with: a mobile connection of 10 and 40 Mbit/s, a home's of 20 and 100, and a
data centre's of 1 Gbit/s. Steps depend on the model: give your own where you know them."""


class VirtualClock(Settings):
    """Simulated time: each participant computes and communicates at its device's speed, the server waits for all.

    The server itself takes no time, and neither do predictions.

    Args:
        devices: one device for all, or participant → device; a ``Device``, or its name among ``DEVICES``.
        answer_timeout: how many simulated seconds the server waits at an exchange; whoever would answer later is lost
            for the round. By default None: it waits for everybody.
    """

    model_config = ConfigDict(title="a clock")

    devices: Device | dict[str, Device]
    answer_timeout: float | None = Field(None, gt=0)

    @field_validator("devices", mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        if isinstance(given, str):
            return _profile(given)
        if isinstance(given, dict):
            return {name: _profile(device) if isinstance(device, str) else device for name, device in given.items()}
        return given

    def check_names(self, names: Iterable[str]) -> None:
        """Raises SettingsError unless every participant, and nobody else, has a device."""
        if isinstance(self.devices, Device):
            return
        known = list(names)
        for name in self.devices:
            if name not in known:
                raise SettingsError(f"clock.devices names {name!r}, who is no participant.{nearest(name, known)}")
        if missing := [name for name in known if name not in self.devices]:
            raise SettingsError(f"clock.devices has none for {missing[0]!r}; expected a device for every participant.")

    def device(self, name: str) -> Device:
        """A participant's device."""
        return self.devices if isinstance(self.devices, Device) else self.devices[name]


def _profile(name: str) -> Device:
    if name not in DEVICES:
        raise ValueError(f"there is no device {name!r}.{nearest(name, DEVICES)}")
    return DEVICES[name]


class PhaseClock:
    """The simulated time of one phase: how far it is for each participant.

    Args:
        clock: the speeds.
        names: who plays the phase.
    """

    def __init__(self, clock: VirtualClock, names: Iterable[str]) -> None:
        self._clock = clock
        self.now = dict.fromkeys(names, 0.0)
        """How many simulated seconds into the phase each participant is."""
        self._steps = dict.fromkeys(self.now, 0)
        self._replied = 0.0
        """When the server last replied."""

    def worked(self, name: str, steps: int) -> None:
        """A participant has come to its next exchange, or to its end, after so many steps in this phase."""
        self.now[name] += (steps - self._steps[name]) / self._clock.device(name).steps_per_second
        self._steps[name] = steps

    def sent(self, name: str, size: int) -> str | None:
        """A participant has sent a payload. Why the server does not read it: None if it came in time."""
        device, limit = self._clock.device(name), self._clock.answer_timeout
        self.now[name] += device.latency + size / device.upload
        took = self.now[name] - self._replied
        if limit is None or took <= limit:
            return None
        self.now[name] = self._replied + limit
        return f"too slow: {took:.3g} simulated s where the server waits {limit:g}"

    def reply(self, senders: Iterable[str], lost: bool) -> None:
        """The server replies to these: when all are there, or, where some were lost, when it has waited for them."""
        names, limit = list(senders), self._clock.answer_timeout
        latest = max((self.now[name] for name in names), default=self._replied)
        self._replied = self._replied + limit if lost and limit is not None else latest
        for name in names:
            self.now[name] = self._replied

    def received(self, name: str, size: int) -> None:
        """A participant has received a reply."""
        device = self._clock.device(name)
        self.now[name] += device.latency + size / device.download
