"""Feature shift: every participant sees its inputs in a way of its own, as through another camera.

A shift is a function of all inputs, the participant's number, how many there are, and a seed. A participant's test data
go through the shift of the same number as its training data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.core.registry import Registry, call
from potluck.data.sampling import draws

InputArray = NDArray[Any]


def rotation(x: Any, number: int, participants: int, degrees: float = 90.0, seed: int = 0) -> InputArray:
    """Images turned anticlockwise: not at all for the first participant, by ``degrees`` for the last, evenly between.

    Pixels are interpolated; what comes into the picture from outside is 0.

    Args:
        x: the participant's inputs: images, channels first.
        number: which participant it is, from 0 on.
        participants: how many participants there are.
        degrees: how far the last one's are turned; by default 90.
        seed: nothing is drawn; by default 0.
    """
    images = _images(x, "rotation")
    angle = np.deg2rad(degrees * _share(number, participants))
    height, width = images.shape[2:]
    cos, sin = np.cos(angle), np.sin(angle)
    # The positions that are looked up turn the other way, in a picture whose sides are of length 2 in both directions.
    turn = torch.tensor([[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]], dtype=torch.float64)
    pixels = torch.from_numpy(images.astype(np.float64))
    grid = F.affine_grid(turn.expand(len(pixels), 2, 3), list(pixels.shape), align_corners=False)
    return _like(F.grid_sample(pixels, grid, align_corners=False).numpy(), images)


def noise(x: Any, number: int, participants: int, std: float = 0.5, seed: int = 0) -> InputArray:
    """Gaussian noise added: none for the first participant, ``std`` standard deviations of the inputs for the last.

    Args:
        x: the participant's inputs.
        number: which participant it is, from 0 on.
        participants: how many participants there are.
        std: how many standard deviations of the inputs the last one's noise has; by default 0.5.
        seed: what the draw derives from; by default 0.
    """
    inputs = _numbers(x, "noise")
    drawn = draws(seed, "noise", number).normal(size=inputs.shape)
    return _like(inputs + drawn * std * inputs.std() * _share(number, participants), inputs)


def colour(x: Any, number: int, participants: int, strength: float = 0.5, seed: int = 0) -> InputArray:
    """Every channel of images is multiplied by a factor from 1 − ``strength`` to 1 + ``strength``, drawn for each
    participant.

    Args:
        x: the participant's inputs: images, channels first.
        number: which participant it is, from 0 on.
        participants: how many participants there are.
        strength: how far from 1 factors may be; by default 0.5.
        seed: what the draw derives from; by default 0.
    """
    images = _images(x, "colour")
    factors = draws(seed, "colour", number).uniform(1 - strength, 1 + strength, size=(1, images.shape[1], 1, 1))
    return _like(images * factors, images)


SHIFTS = Registry("shifts", {"rotation": rotation, "noise": noise, "colour": colour})
"""Feature shifts by name; another package adds one under the entry point group ``potluck.shifts``."""


def shift(kind: str, x: Any, number: int, participants: int, seed: int = 0, **settings: Any) -> InputArray:
    """The inputs as one participant sees them.

    Args:
        kind: the name of a shift.
        x: the inputs.
        number: the participant's number, from 0 on.
        participants: how many participants there are.
        seed: what is drawn derives from it; by default 0.
        settings: the shift's own settings.
    """
    if not 0 <= number < participants:
        raise DataError(f"number={number!r} of {participants} participants; expected 0 to {participants - 1}.")
    shifted: InputArray = call(kind, SHIFTS[kind], settings, x=x, number=number, participants=participants, seed=seed)
    return shifted


def _share(number: int, participants: int) -> float:
    """How far along a participant is from the first to the last; the only one is the first."""
    return number / max(1, participants - 1)


def _numbers(x: Any, what: str) -> InputArray:
    inputs = np.asarray(x)
    if inputs.dtype.kind not in "fiub":
        raise DataError(f"The shift {what!r} got inputs of type {inputs.dtype}; expected numbers.")
    return inputs


def _images(x: Any, what: str) -> InputArray:
    images = _numbers(x, what)
    if images.ndim != 4:
        raise DataError(
            f"The shift {what!r} got inputs of shape {images.shape}; expected images: (rows, channels, height, width)."
        )
    return images


def _like(shifted: InputArray, inputs: InputArray) -> InputArray:
    """In the inputs' own type: whole numbers are rounded, and stay within what the type holds."""
    if inputs.dtype.kind == "f":
        return shifted.astype(inputs.dtype)
    limits = np.iinfo(inputs.dtype if inputs.dtype.kind in "iu" else np.uint8)
    return np.clip(np.rint(shifted), limits.min, limits.max).astype(inputs.dtype)
