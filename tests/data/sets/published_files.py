"""Tiny files in the formats in which data sets are published."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (30, 28, 28), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 256, (60, 3, 32, 32), dtype=np.uint8)
TEN = np.arange(60) % 10
WEATHER = ("TEMP", "PRES", "DEWP", "RAIN", "wd", "WSPM", "station")
WRITERS = {"f0001_41": 6, "f0002_10": 4, "f0003_02": 2}
"""Writer → how many images he or she has for training."""


def idx(array: Any) -> bytes:
    """IDX, as MNIST's files are."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + bytes(array.astype(np.uint8))


def mnist_files() -> dict[str, bytes]:
    """20 and 10 images, packed."""
    plain = {
        "train-images-idx3-ubyte": GREY[:20],
        "train-labels-idx1-ubyte": TEN[:20],
        "t10k-images-idx3-ubyte": GREY[20:],
        "t10k-labels-idx1-ubyte": TEN[20:30],
    }
    return {f"{name}.gz": gzip.compress(idx(array)) for name, array in plain.items()}


def cifar10_binary() -> dict[str, bytes]:
    """Six batches of ten images: a label, then the pixels, channel by channel."""
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    return {name: _binary(slice(10 * part, 10 * part + 10), TEN) for part, name in enumerate(names)}


def cifar100_binary() -> dict[str, bytes]:
    """40 and 20 images; before each the coarse label, then the fine one."""
    return {
        "train.bin": _binary(slice(40), TEN // 5, TEN),
        "test.bin": _binary(slice(40, 60), TEN // 5, TEN),
    }


def _binary(rows: slice, *labels: Any) -> bytes:
    columns = [column[rows, None].astype(np.uint8) for column in labels]
    return np.hstack([*columns, COLOUR[rows].reshape(len(COLOUR[rows]), -1)]).tobytes()


def cifar10_pickles() -> dict[str, bytes]:
    """The Python version."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    return {
        name: _pickled(slice(10 * part, 10 * part + 10), batch_label=b"batch", labels=TEN)
        for part, name in enumerate(names)
    }


def cifar100_pickles() -> dict[str, bytes]:
    """Likewise."""
    return {
        "train": _pickled(slice(40), fine_labels=TEN, coarse_labels=TEN // 5),
        "test": _pickled(slice(40, 60), fine_labels=TEN, coarse_labels=TEN // 5),
    }


def _pickled(rows: slice, **entries: Any) -> bytes:
    batch: dict[bytes, Any] = {b"data": COLOUR[rows].reshape(len(COLOUR[rows]), -1)}
    for name, entry in entries.items():
        batch[name.encode()] = entry if isinstance(entry, bytes) else entry[rows].tolist()
    return pickle.dumps(batch, protocol=3)


def svhn_files() -> dict[str, bytes]:
    """40 and 20 images, the last axis of which counts them; a zero has the label 10."""
    found = {}
    for name, rows in (("train_32x32.mat", slice(40)), ("test_32x32.mat", slice(40, 60))):
        written = io.BytesIO()
        savemat(written, {"X": COLOUR[rows].transpose(2, 3, 1, 0), "y": np.where(TEN == 0, 10, TEN)[rows, None]})
        found[name] = written.getvalue()
    return found


def leaf_files() -> dict[str, bytes]:
    """Two files for training, of two writers and one, and one for tests."""
    one, two, three = WRITERS
    return {
        "train/all_data_0_niid_0_keep_0_train_9.json": _leaf({one: 6, two: 4}),
        "train/all_data_1_niid_0_keep_0_train_9.json": _leaf({three: 2}),
        "test/all_data_0_niid_0_keep_0_test_9.json": _leaf(dict.fromkeys(WRITERS, 1)),
    }


def _leaf(counts: dict[str, int]) -> bytes:
    data = {
        name: {"x": [[int(name[4]) / 10] * 784 for _ in range(count)], "y": [label % 2 for label in range(count)]}
        for name, count in counts.items()
    }
    return json.dumps({"users": list(counts), "num_samples": list(counts.values()), "user_data": data}).encode()


def adult_files() -> dict[str, bytes]:
    """Six rows and three, with what is odd about them: "?", a remark, dots, an empty line at the end."""
    rest = "Never-married, Sales, Own-child, White, Male, 0, 0, 40, United-States"
    rows = [
        f"{30 + number}, {'?' if number == 2 else 'Private'}, 100, HS-grad, 9, {rest}, {'>' if number % 2 else '<='}50K"
        for number in range(9)
    ]
    test = "\n".join(f"{row}." for row in rows[6:])
    return {
        "adult.data": f"{chr(10).join(rows[:6])}\n\n".encode(),
        "adult.test": f"|1x3 Cross validator\n{test}\n\n".encode(),
    }


def heart_files(patients: int = 12) -> dict[str, bytes]:
    """Every fourth patient has a gap in a column that is used; the last three columns but one are gaps."""
    return {
        f"processed.{hospital}.data": "".join(
            f"{50 + number},1,{1 + number % 4},{'?' if number % 4 == 3 else 120},{place},0,{number % 3},150,0,1.5,"
            f"?,?,?,{number % 2 * 2}\n"
            for number in range(patients)
        ).encode()
        for place, hospital in enumerate(("cleveland", "hungarian", "switzerland", "va"))
    }


def shakespeare_files() -> dict[str, bytes]:
    """Two who say much, and one who says little."""
    speeches = [f"{who}:\n{' '.join(f'{who} {number}' for number in range(40))}" for who in ("ANNE", "BOB") * 2]
    return {"input.txt": "\n\n".join([*speeches, "CAROL:\nHo."]).encode()}


def beijing_files() -> dict[str, bytes]:
    """Two stations, four hours in 2013 and three in March 2016; one hour has a gap."""
    found = {}
    for place, station in enumerate(("Gucheng", "Wanliu")):
        written = io.StringIO()
        rows = csv.writer(written)
        rows.writerow(["No", "year", "month", "day", "hour", "PM2.5", "PM10", "SO2", "NO2", "CO", "O3", *WEATHER])
        for number in range(7):
            year = 2013 if number < 4 else 2016
            dust = "NA" if number == 1 else 10 * place + number + 0.5
            rows.writerow([number, year, 3, 1, number, dust, 20, 3, 4, 500, 60, -1, 1010, -9, 0, "NNW", 2, station])
        found[f"PRSA_Data_{station}_20130301-20170228.csv"] = written.getvalue().encode()
    return found


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Writes files into a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def tarred(files: dict[str, bytes], inside: str) -> bytes:
    """A .tar.gz with these files in a folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    """A .zip with these files."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return written.getvalue()
