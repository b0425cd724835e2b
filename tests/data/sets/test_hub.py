"""A data set of the hub becomes a file of arrays; the hub here is a folder, laid out as a repository there."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from potluck.core.errors import DataError, SettingsError
from potluck.data import cifar100, femnist, mnist
from potluck.data.sets import catalog, hub, published
from potluck.data.sets.download import UnreachableError
from potluck.data.sets.images import ImageSet
from tests.data.sets.fake_hub import COMMIT, hub_of
from tests.data.sets.published_files import COLOUR, GREY, TEN


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Makes a repository of parquet files, and has a data set taken from it."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.load_dataset", partial(datasets.load_dataset, cache_dir=str(tmp_path / "cache")))
    datasets.disable_progress_bars()

    def make(name, image, **splits):
        folder = tmp_path / "hub" / name
        for split, columns in splits.items():
            rows = datasets.Dataset.from_dict(columns).cast_column(image, datasets.Image())
            (folder / "data").mkdir(parents=True, exist_ok=True)
            rows.to_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
        there = catalog.CATALOG[name]
        assert there.hub is not None
        return replace(there, hub=replace(there.hub, repository=str(folder)))

    return make


def pictures(arrays):
    from PIL import Image

    return [Image.fromarray(array) for array in arrays]


def test_images_become_arrays_and_then_are_here(repository, sets):
    moved = repository(
        "mnist",
        "image",
        train={"image": pictures(GREY[:20]), "label": TEN[:20]},
        test={"image": pictures(GREY[20:]), "label": TEN[20:30]},
    )
    assert published.get_set(moved, origin="hub") == sets / "mnist"
    found = mnist()
    assert np.array_equal(found.x, GREY[:20, None])
    assert found.y_test.tolist() == TEN[20:30].tolist()
    entry = json.loads((sets / "mnist" / "hub-downloads.json").read_text())["mnist.npz"]
    assert entry["sha256"] == hashlib.sha256((sets / "mnist" / "mnist.npz").read_bytes()).hexdigest()
    assert entry["bytes"] == (sets / "mnist" / "mnist.npz").stat().st_size


def test_coarse_labels_come_too(repository, sets):
    rows = {"img": pictures(COLOUR.transpose(0, 2, 3, 1)), "fine_label": TEN, "coarse_label": TEN // 5}
    published.get_set(repository("cifar100", "img", train=rows, test=rows), origin="hub")
    assert cifar100().y.tolist() == TEN.tolist()
    assert cifar100(labels="coarse").y.tolist() == (TEN // 5).tolist()
    assert np.array_equal(cifar100().x, COLOUR)


def test_of_a_set_without_test_rows_each_writers_tenth_image_is_one(repository, sets):
    writers = np.repeat(["f1", "f2"], [20, 10])
    rows = {"image": pictures(GREY), "character": np.arange(30) % 2, "writer_id": writers}
    published.get_set(repository("femnist", "image", train=rows), origin="hub")
    found = femnist()
    assert found.groups is not None
    assert found.groups_test is not None
    assert [int((found.groups == who).sum()) for who in ("f1", "f2")] == [18, 9]
    assert found.groups_test.tolist() == ["f1", "f1", "f2"]
    assert np.array_equal(found.x_test, GREY[[9, 19, 29], None])


def test_a_source_may_ask_for_the_hub(repository, sets):
    rows = {"image": pictures(GREY), "label": TEN[:30]}
    moved = ImageSet(repository("mnist", "image", train=rows, test=rows), mnist.read)
    assert len(moved(download="hub").y) == 30


def test_what_the_hub_lacks_is_told(repository, sets, monkeypatch):
    rows = {"image": pictures(GREY), "digit": TEN[:30]}
    with pytest.raises(DataError, match="mnist on the hub has no column 'label'; it has image, digit"):
        published.get_set(repository("mnist", "image", train=rows, test=rows), origin="hub")
    assert not (sets / "mnist" / "mnist.npz").exists()
    gone = replace(catalog.MNIST, hub=replace(catalog.MNIST.hub, repository="/tmp/nowhere"))
    with pytest.raises(DataError, match=r"mnist cannot be downloaded: the hub's .*/nowhere cannot be had"):
        published.get_set(gone, origin="hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnreachableError, match="HF_HUB_OFFLINE is set"):
        hub.download_from_hub(catalog.MNIST, sets / "mnist")


def test_without_the_extra_it_is_told_how_to_get_it(sets, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SettingsError, match=r"The hub is asked with datasets: pip install '\.\[hub\]'"):
        published.get_set(catalog.MNIST, origin="hub")


CARD = """---
configs:
- config_name: mnist
  data_files:
  - {split: train, path: data/train-*}
  - {split: test, path: data/test-*}
---
"""


@pytest.mark.slow
def test_the_command_asks_a_hub_over_http(repository, sets, tmp_path):
    """In a process of its own, since the hub's client reads its address when it is imported."""
    rows = {"image": pictures(GREY[:20]), "label": TEN[:20]}
    repository("mnist", "image", train=rows, test=rows)
    (tmp_path / "hub" / "ylecun").mkdir()
    (tmp_path / "hub" / "mnist").rename(tmp_path / "hub" / "ylecun" / "mnist")
    (tmp_path / "hub" / "ylecun" / "mnist" / "README.md").write_text(CARD)
    with hub_of(tmp_path / "hub") as address:
        told = os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "POTLUCK_DATA": str(sets)}
        command = [sys.executable, "-m", "potluck", "download", "mnist", "--from", "hub"]
        done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "licence: CC BY-SA 3.0" in done.stdout
    assert np.array_equal(mnist().x, GREY[:20, None])
    entry = json.loads((sets / "mnist" / "hub-downloads.json").read_text())["mnist.npz"]
    assert all(f"ylecun/mnist@{COMMIT}/" in path for path in entry["files"])
