"""Generated data sets: for experiments and tests, with no download."""

from __future__ import annotations

import numpy as np

from potluck.data.sampling import at_least, draws
from potluck.data.source import Source, held_out


def generated(
    samples: int = 2000,
    features: int = 20,
    classes: int = 4,
    subclasses: int = 2,
    groups: int = 20,
    noise: float = 2.0,
    test_share: float = 0.25,
    seed: int = 0,
) -> Source:
    """A table with classes, subclasses and groups, so that every partition can be tried on it.

    Each subclass is a normal distribution around a centre near its class's; each group has a shift of its own.

    Args:
        samples: how many rows; by default 2000.
        features: how many columns; by default 20.
        classes: how many classes; by default 4.
        subclasses: how many subclasses of each class; by default 2.
        groups: how many groups; by default 20.
        noise: the deviation of rows around their centre; by default 2.
        test_share: the share of test rows; by default a quarter.
        seed: what the draws derive from; by default 0.
    """
    at_least(1, samples=samples, features=features, classes=classes, subclasses=subclasses, groups=groups)
    rng = draws(seed, "generated")
    fine = rng.permutation(np.arange(samples) % (classes * subclasses))
    y = fine // subclasses
    group = rng.integers(groups, size=samples)
    x = rng.normal(size=(classes, features))[y]
    x += rng.normal(size=(classes * subclasses, features))[fine]
    x += 0.3 * rng.normal(size=(groups, features))[group]
    x += noise * rng.normal(size=(samples, features))
    return held_out("generated", x.astype(np.float32), y, test_share, seed, fine=fine, groups=group)


def generated_images(
    samples: int = 2000,
    classes: int = 10,
    size: int = 8,
    channels: int = 1,
    noise: float = 0.2,
    test_share: float = 0.25,
    seed: int = 0,
) -> Source:
    """Small images, float32 in [0, 1]: a pattern for each class, shifted by up to a pixel, with noise.

    Args:
        samples: how many images; by default 2000.
        classes: how many classes; by default 10.
        size: height and width; by default 8.
        channels: how many channels; by default 1.
        noise: the deviation of the noise; by default 0.2.
        test_share: the share of test images; by default a quarter.
        seed: what the draws derive from; by default 0.
    """
    at_least(1, samples=samples, classes=classes, size=size, channels=channels)
    rng = draws(seed, "generated images")
    y = rng.permutation(np.arange(samples) % classes)
    half = (size + 1) // 2
    blocks = rng.random((classes, channels, half, half))
    pictures = blocks.repeat(2, axis=2).repeat(2, axis=3)[..., :size, :size]
    x = noise * rng.normal(size=(samples, channels, size, size))
    shifts = rng.integers(-1, 1, size=(samples, 2), endpoint=True)
    for image, label, shift in zip(x, y, shifts, strict=True):
        image += np.roll(pictures[label], shift, axis=(1, 2))
    return held_out("generated-images", np.clip(x, 0, 1).astype(np.float32), y, test_share, seed)
