"""Data: where it comes from, how it is split among participants, and what is public.

``loaders`` finds a data set (a ``Source``), ``synthetic`` generates one. ``partitioners`` splits its rows among
participants (a ``Partition``). ``public`` makes the public set that some methods need. ``plots`` draws who has what.
"""

from potluck.data.loaders import SOURCES, Source, arrays, digits, generated, generated_images, load, npz
from potluck.data.partitioners import (
    PARTITIONS,
    Partition,
    by_classes,
    by_group,
    dirichlet,
    iid,
    split,
    superclasses,
)
from potluck.data.plots import Holdings, holdings, plot_partition
from potluck.data.public import Aside, from_source, split_public, valid_values

__all__ = [
    "PARTITIONS",
    "SOURCES",
    "Aside",
    "Holdings",
    "Partition",
    "Source",
    "arrays",
    "by_classes",
    "by_group",
    "digits",
    "dirichlet",
    "from_source",
    "generated",
    "generated_images",
    "holdings",
    "iid",
    "load",
    "npz",
    "plot_partition",
    "split",
    "split_public",
    "superclasses",
    "valid_values",
]
