"""Beijing air by station: the fine dust of an hour from the other measurements of that hour, from UCI's CSV files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.data.sets.catalog import BEIJING_AIR
from potluck.data.sets.published import Download, Files, open_set
from potluck.data.sets.subset import some_rows
from potluck.data.source import Source

MEASURED = ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM")
WINDS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")
_TIME = ("year", "month", "day", "hour")
_LAST_YEAR = (2016, 3)
"""The year and month from which on hours are for tests: the last of four years."""

Pollutant = Literal["PM2.5", "PM10", "SO2", "NO2", "CO", "O3"]


def beijing_air(
    target: Pollutant = "PM2.5",
    train: int | None = None,
    test: int | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: Download = False,
) -> Source:
    """Beijing air: a pollutant of an hour from what else was measured then, in groups by station: a regression.

    Inputs are the ten other measurements, and the direction of the wind, the hour of the day and the month as sine and
    cosine. Hours with a gap are left out. The last of four years is for tests.

    Args:
        target: which pollutant; by default the fine dust, "PM2.5".
        train: how many training hours, of all stations, drawn; by default all, some 284,000.
        test: how many test hours; by default all.
        seed: what the choice of hours derives from; by default 0.
        data_dir: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        download: whether it is downloaded if it is not there; by default False.
    """
    if target not in MEASURED[:6]:
        raise DataError(f"target={target!r}; expected one of {', '.join(MEASURED[:6])}.")

    def read(files: Files) -> Source:
        stations = [_station(content, path, target) for path, content in sorted(files.items())]
        names = np.repeat([name for name, *_ in stations], [len(y) for _, _, y, _ in stations])
        x, y, late = (np.concatenate(part) for part in list(zip(*stations, strict=True))[1:])
        return Source(
            "beijing-air",
            x[~late],
            y[~late],
            x[late],
            y[late],
            groups=names[~late],
            groups_test=names[late],
            values=True,
        )

    return some_rows(open_set(BEIJING_AIR, read, data_dir, download), train, test, seed)


def _station(content: bytes, path: str, target: str) -> tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A station's name; of its hours without a gap the inputs, the targets, and which are of the last year."""
    heading, *lines = csv.reader(content.decode("ascii", "replace").splitlines())
    wanted = [*_TIME, *MEASURED, "wd", "station"]
    if missing := [name for name in wanted if name not in heading]:
        raise DataError(f"{path} has no column {missing[0]!r}; it has {', '.join(heading)}.")
    places = [heading.index(name) for name in wanted]
    whole = [row for row in ([line[place] for place in places] for line in lines if line) if "NA" not in row]
    if not whole:
        raise DataError(f"{path} has no row without a gap (NA).")
    table = np.array(whole)
    time, measured = table[:, :4].astype(np.int64), table[:, 4:-2].astype(np.float64)
    own = MEASURED.index(target)
    winds = {name: 2 * np.pi * number / len(WINDS) for number, name in enumerate(WINDS)}
    if unknown := sorted(set(table[:, -2].tolist()) - set(winds)):
        raise DataError(f"{path}: the wind {unknown[0]!r}; expected one of {', '.join(WINDS)}.")
    turns = [
        np.array([winds[name] for name in table[:, -2].tolist()]),
        2 * np.pi * time[:, 3] / 24,
        2 * np.pi * (time[:, 1] - 1) / 12,
    ]
    circles = [function(turn)[:, None] for turn in turns for function in (np.sin, np.cos)]
    x = np.hstack([np.delete(measured, own, axis=1), *circles]).astype(np.float32)
    late = (time[:, 0] > _LAST_YEAR[0]) | ((time[:, 0] == _LAST_YEAR[0]) & (time[:, 1] >= _LAST_YEAR[1]))
    return str(table[0, -1]), x, measured[:, own], late
