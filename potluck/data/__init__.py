"""Data: where it comes from, how it is split among participants, and what is public.

``loaders`` finds a data set (a ``Source``), ``synthetic`` generates one. ``partitioners`` splits its rows among
participants (a ``Partition``), ``shifts`` has each of them see its inputs in a way of its own. ``public`` makes the
public set that some methods need. ``augmentation`` changes pictures while they are trained on. ``plots`` and
``shift_plots`` draw who has and sees what.
"""

from potluck.data.augmentation import Crop, Cutout, Flip, Normalize
from potluck.data.loaders import SOURCES, Source, arrays, digits, generated, generated_images, load, npz, table
from potluck.data.partitioners import (
    PARTITIONS,
    Partition,
    by_classes,
    by_group,
    dirichlet,
    iid,
    quantity,
    split,
    superclasses,
)
from potluck.data.plots import Holdings, holdings, plot_partition, plot_window
from potluck.data.public import Aside, from_source, split_public, valid_values
from potluck.data.shift_plots import plot_shift
from potluck.data.shifts import SHIFTS, colour, noise, rotation, shift
from potluck.ingestion.images import ImageFolder

__all__ = [
    "PARTITIONS",
    "SHIFTS",
    "SOURCES",
    "Aside",
    "Crop",
    "Cutout",
    "Flip",
    "Holdings",
    "ImageFolder",
    "Normalize",
    "Partition",
    "Source",
    "arrays",
    "by_classes",
    "by_group",
    "colour",
    "digits",
    "dirichlet",
    "from_source",
    "generated",
    "generated_images",
    "holdings",
    "iid",
    "load",
    "noise",
    "npz",
    "plot_partition",
    "plot_shift",
    "plot_window",
    "quantity",
    "rotation",
    "shift",
    "split",
    "split_public",
    "superclasses",
    "table",
    "valid_values",
]
