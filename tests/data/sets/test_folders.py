"""Files are found in folders of many names, plain, packed and in archives inside archives."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from potluck.core.errors import DataError
from potluck.data.sets.folders import array_file, data_dir, files_in, folders_of, holds
from tests.data.sets.published_files import put, tarred, zipped

FILES = {"a.bin": b"one", "b.bin": b"two", "other.txt": b"no"}
WANTED = {"a.bin": b"one", "b.bin": b"two"}


def found(folder, *patterns):
    return {path.rpartition("/")[2]: content for path, content in files_in([folder], patterns or ("?.bin",))}


def test_where_data_sets_are(monkeypatch, tmp_path):
    monkeypatch.delenv("POTLUCK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_dir() == tmp_path / "potluck" / "data"
    monkeypatch.setenv("POTLUCK_DATA", "~/sets")
    assert data_dir() == Path.home() / "sets"
    assert data_dir("here") == Path("here")


def test_a_folder_is_found_however_it_is_spelt(tmp_path):
    for name in ("Fashion_MNIST", "FashionMNIST", "mnist"):
        (tmp_path / name).mkdir()
    assert [path.name for path in folders_of(["fashion-mnist"], tmp_path)] == ["FashionMNIST", "Fashion_MNIST"]
    assert folders_of(["mnist"], tmp_path / "mnist") == [tmp_path / "mnist"]
    assert folders_of(["mnist"], tmp_path / "nowhere") == []


def test_a_file_of_arrays_is_found_beside_the_folders_and_in_them(tmp_path):
    put(tmp_path, {"fashion_mnist/x.npz": b"", "fashion_mnist/Fashion-MNIST.npz": b"", "svhn.npz": b""})
    assert array_file(["fashion-mnist"], tmp_path) == tmp_path / "fashion_mnist" / "Fashion-MNIST.npz"
    assert array_file(["svhn"], tmp_path) == tmp_path / "svhn.npz"
    assert array_file(["mnist"], tmp_path) is None


@pytest.mark.parametrize(
    "files",
    [
        FILES,
        {f"deep/down/{name}": content for name, content in FILES.items()},
        {f"{name}.gz": gzip.compress(content) for name, content in FILES.items()},
        {"all.tar.gz": tarred(FILES, "inside")},
        {"all.zip": zipped(FILES)},
        {"all.zip": zipped({"in.zip": zipped(FILES), "readme": b"x"})},
        {"all.tgz": tarred({"in.zip": zipped(FILES)}, "x")},
        {"all.zip": zipped({f"{name}.gz": gzip.compress(content) for name, content in FILES.items()})},
        {**FILES, "old.zip": zipped({"a.bin": b"stale"})},
        {**FILES, "a.bin.gz": gzip.compress(b"one")},
    ],
)
def test_what_is_wanted_is_found_once(tmp_path, files):
    assert found(put(tmp_path / "set", files)) == WANTED
    assert holds([tmp_path / "set"], ("?.bin",))


def test_the_path_inside_the_folder_is_told(tmp_path):
    put(tmp_path, {"train/a.json": b"1", "b.json.gz": gzip.compress(b"2")})
    assert dict(files_in([tmp_path], ("*.json",))) == {"b.json": b"2", "train/a.json": b"1"}


def test_nothing_is_found_where_nothing_is(tmp_path):
    assert found(put(tmp_path, {"readme.txt": b""})) == {}
    assert not holds([tmp_path], ("?.bin",))


@pytest.mark.parametrize(
    "files",
    [
        {"a.bin.gz": b"\x1f\x8bdamaged"},
        {"a.bin.gz": gzip.compress(bytes(1000))[:20]},
        {"all.tar.gz": tarred(FILES, "x")[:60]},
        {"all.zip": zipped(FILES)[:40]},
        {"all.zip": zipped({"in.zip": b"damaged"})},
    ],
)
def test_a_damaged_file_is_told_with_what_to_do(tmp_path, files):
    with pytest.raises(DataError, match=r"cannot be read.*Get it again"):
        found(put(tmp_path, files))


def test_an_archive_writes_nothing_outside(tmp_path):
    put(tmp_path / "set", {"all.tar.gz": tarred({"../../a.bin": b"out"}, "..")})
    assert found(tmp_path / "set") == {"a.bin": b"out"}
    assert [path.name for path in tmp_path.rglob("*")] == ["set", "all.tar.gz"]
