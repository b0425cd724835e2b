"""Devices by name, as users write them."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import AfterValidator

from potluck.core.errors import SettingsError


def pick_device(name: str) -> torch.device:
    """The torch device of that name. "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(f"Device {name!r} cannot be used here: {error}") from error
    return device


def _usable(name: str) -> str:
    pick_device(name)
    return name


DeviceName = Annotated[str, AfterValidator(_usable)]
"""In a file: the name of a device that can be used here."""
