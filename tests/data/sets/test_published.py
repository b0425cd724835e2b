"""A data set is found where it is, downloaded only if asked for, and what is missing is told in one message."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.data import Source, mnist
from potluck.data.sets.catalog import FEMNIST, HEART_DISEASE, MNIST
from potluck.data.sets.published import get_set, is_here, need, open_set, set_named
from tests.data.sets.published_files import GREY, mnist_files, put


def read(files):
    assert set(files) == {"words.txt"}
    return Source("words", [[len(files["words.txt"])]], [0], [[1]], [0])


@pytest.fixture
def words(server):
    return replace(
        MNIST, name="words", patterns=("words.txt",), expected="words.txt", files=(server.file("words.txt"),)
    )


def test_nothing_is_downloaded_without_being_asked_for(words, server, sets):
    missing = r"words is not here: there is no folder '.*sets/words' with words.txt; and no words.npz beside it. "
    missing += r"`potluck download words` gets it \(1 MB, licence: CC BY-SA 3.0\); .*--data-dir or POTLUCK_DATA\."
    with pytest.raises(DataError, match=missing):
        open_set(words, read)
    assert server.asked == []
    assert not sets.exists()


def test_what_is_asked_for_is_downloaded_once_and_its_licence_told(words, server, sets, caplog):
    assert open_set(words, read, download=True).x.tolist() == [[512_000]]
    assert "Licence: CC BY-SA 3.0" in caplog.text
    assert open_set(words, read).x.tolist() == [[512_000]]
    assert len(server.asked) == 1
    assert is_here(words)


def test_one_message_says_what_to_do_without_a_network(words, server, sets, monkeypatch):
    monkeypatch.setenv("POTLUCK_OFFLINE", "1")
    wrong = r"words cannot be downloaded: POTLUCK_OFFLINE .*; then bring it here as .*sets/words, or name the folder"
    with pytest.raises(DataError, match=wrong):
        open_set(words, read, download=True)
    put(sets / "words", {"words.txt": b"12345"})
    assert open_set(words, read, download=True).x.tolist() == [[5]]


def test_a_download_that_holds_something_else_is_told(words, sets):
    with pytest.raises(DataError, match="words was downloaded, and yet words is not here"):
        open_set(replace(words, patterns=("data.csv",)), read, download=True)


def test_files_go_before_arrays_and_both_are_found_in_a_folder_that_is_named(tmp_path):
    arrays = {"x_train": GREY[:20], "y_train": np.arange(20) % 2, "x_test": GREY[20:], "y_test": np.arange(10) % 2}
    np.savez(tmp_path / "mnist.npz", **arrays)
    assert mnist(data_dir=tmp_path).labels == (0, 1)
    put(tmp_path / "MNIST" / "raw", mnist_files())
    assert len(mnist(data_dir=tmp_path).labels) == 10


def test_it_is_downloaded_into_the_folder_that_is_there(words, sets):
    (sets / "Words").mkdir(parents=True)
    assert get_set(words) == sets / "Words"
    assert (sets / "Words" / "words.txt").is_file()


def test_each_comes_from_where_it_is(sets):
    with pytest.raises(DataError, match="heart-disease is not taken from the hub"):
        get_set(HEART_DISEASE, origin="hub")
    with pytest.raises(DataError, match="femnist is taken from the hub alone: potluck download femnist --from hub"):
        get_set(FEMNIST)
    with pytest.raises(DataError, match=r"`potluck download femnist --from hub` gets it"):
        open_set(FEMNIST, read)


@pytest.mark.parametrize("name", ["fashion-mnist", "Fashion_MNIST", "FashionMNIST", "fashion mnist"])
def test_a_name_is_found_in_any_spelling(name):
    assert set_named(name).name == "fashion-mnist"


def test_an_unknown_name_is_told():
    with pytest.raises(DataError, match=r"no published data set 'mnits'\. Did you mean 'mnist'"):
        set_named("mnits")


def test_what_is_missing_beside_others_is_named(sets):
    files = mnist_files()
    del files["t10k-labels-idx1-ubyte.gz"]
    put(sets / "mnist", files)
    with pytest.raises(
        DataError, match="mnist: t10k-labels-idx1-ubyte is missing beside t10k-images-idx3-ubyte, train"
    ):
        mnist()
    assert need({"in/a": b"1", "b": b"2"}, "b", "a", owner=MNIST) == [b"2", b"1"]
