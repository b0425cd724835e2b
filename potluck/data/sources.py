"""Data sources by name: files, generated data, and published data sets."""

from __future__ import annotations

from typing import Any

from potluck.core.errors import SettingsError
from potluck.core.registry import Registry, call
from potluck.data.loaders import digits, npz, table
from potluck.data.sets.adult import adult
from potluck.data.sets.beijing_air import beijing_air
from potluck.data.sets.femnist import femnist
from potluck.data.sets.heart_disease import heart_disease
from potluck.data.sets.images import cifar10, cifar100, fashion_mnist, mnist, svhn
from potluck.data.sets.shakespeare import shakespeare
from potluck.data.source import Source
from potluck.data.synthetic import generated, generated_images
from potluck.ingestion.files import TABLES

SOURCES = Registry(
    "data",
    {
        "digits": digits,
        "npz": npz,
        "table": table,
        "generated": generated,
        "generated-images": generated_images,
        "mnist": mnist,
        "fashion-mnist": fashion_mnist,
        "cifar10": cifar10,
        "cifar100": cifar100,
        "svhn": svhn,
        "femnist": femnist,
        "adult": adult,
        "heart-disease": heart_disease,
        "shakespeare": shakespeare,
        "beijing-air": beijing_air,
    },
)
"""Data sources by name; another package adds one under the entry point group ``potluck.data``."""


def load(name: str, **settings: Any) -> Source:
    """A source by its name, by a file (``"folder/mine.npz"``, ``"mine.csv"``) or by ``"package.module:callable"``.

    Args:
        name: one of ``SOURCES``, a file, or the name of a callable.
        settings: the source's own settings, such as ``test_share``.
    """
    kind = file_kind(name)
    source = call(name, SOURCES[name], settings) if kind is None else call(kind, SOURCES[kind], settings, path=name)
    if not isinstance(source, Source):
        raise SettingsError(f"{name!r} gave a {type(source).__name__}; expected a potluck.data.Source.")
    return source


def file_kind(name: str) -> str | None:
    """Which source reads a file of that name; None where it names no file."""
    if name.endswith(".npz"):
        return "npz"
    return "table" if name.endswith(TABLES) else None
