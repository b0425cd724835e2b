"""Data: where it comes from, how it is split among participants, and what is public.

``sources`` finds a data set (a ``Source``) by name: ``loaders`` read files and arrays, ``synthetic`` generates one,
``sets`` holds published ones. ``partitioners`` splits its rows among participants (a ``Partition``), ``shifts`` has
each of them see its inputs in a way of its own. ``public`` makes the public set that some methods need.
``augmentation`` changes pictures while they are trained on. ``plots`` and ``shift_plots`` draw who has and sees what.
"""

from potluck.data.augmentation import Crop, Cutout, Flip, Normalize
from potluck.data.loaders import arrays, digits, npz, table
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
from potluck.data.sets.adult import adult
from potluck.data.sets.beijing_air import beijing_air
from potluck.data.sets.femnist import femnist
from potluck.data.sets.heart_disease import heart_disease
from potluck.data.sets.images import cifar10, cifar100, fashion_mnist, mnist, svhn
from potluck.data.sets.shakespeare import shakespeare
from potluck.data.shift_plots import plot_shift
from potluck.data.shifts import SHIFTS, colour, noise, rotation, shift
from potluck.data.source import Source
from potluck.data.sources import SOURCES, load
from potluck.data.synthetic import generated, generated_images
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
    "adult",
    "arrays",
    "beijing_air",
    "by_classes",
    "by_group",
    "cifar10",
    "cifar100",
    "colour",
    "digits",
    "dirichlet",
    "fashion_mnist",
    "femnist",
    "from_source",
    "generated",
    "generated_images",
    "heart_disease",
    "holdings",
    "iid",
    "load",
    "mnist",
    "noise",
    "npz",
    "plot_partition",
    "plot_shift",
    "plot_window",
    "quantity",
    "rotation",
    "shakespeare",
    "shift",
    "split",
    "split_public",
    "superclasses",
    "svhn",
    "table",
    "valid_values",
]
