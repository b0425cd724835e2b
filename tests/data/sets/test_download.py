"""A file comes whole, checked and once, or not at all; what was cut off goes on where it stopped."""

from __future__ import annotations

import json
import threading

import pytest

from potluck.core.errors import DataError
from potluck.data.sets.download import RECORD, RemoteFile, UnreachableError, download


def test_a_file_comes_whole_and_is_asked_for_once(server, sets):
    told = []
    place = download(server.file("words.txt"), sets, lambda *progress: told.append(progress))
    assert place.read_bytes() == server.files["words.txt"]
    assert told[-1] == ("words.txt", 512_000, 512_000)
    assert len(told) > 2
    download(server.file("words.txt"), sets)
    assert server.asked == [None]
    assert {path.name for path in sets.iterdir()} - {".words.txt.lock"} == {"words.txt", RECORD}
    entry = json.loads((sets / RECORD).read_text())["words.txt"]
    assert entry["sha256"] == server.file("words.txt").sha256
    assert entry["checksum"] == "published"


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(server, sets):
    server.break_after = [300_000, 100_000]
    place = download(server.file("words.txt"), sets)
    assert place.read_bytes() == server.files["words.txt"]
    assert server.asked == [None, "bytes=300000-", "bytes=400000-"]


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(server, sets):
    server.break_after = [100_000, 0, 0, 0]
    with pytest.raises(UnreachableError, match=r"words.txt cannot be reached: it broke off after 100,000 of 512,000"):
        download(server.file("words.txt"), sets)
    assert [path.name for path in sets.iterdir() if path.suffix in (".txt", ".part")] == ["words.txt.part"]
    assert download(server.file("words.txt"), sets).read_bytes() == server.files["words.txt"]
    assert server.asked[-1] == "bytes=100000-"


def test_a_server_that_knows_no_parts_begins_anew(server, sets):
    server.break_after, server.ranges = [100_000], False
    assert download(server.file("words.txt"), sets).read_bytes() == server.files["words.txt"]


def test_another_file_than_expected_is_thrown_away(server, sets):
    expected = server.file("words.txt")
    server.files["words.txt"] = b"\xff" + server.files["words.txt"][1:]
    with pytest.raises(
        DataError, match=rf"is not the file that was expected: 512,000 bytes.*{expected.sha256} is publ"
    ):
        download(expected, sets)
    assert not list(sets.glob("words.txt*"))


def test_a_file_that_is_longer_than_expected_is_not_read_to_its_end(server, sets):
    with pytest.raises(DataError, match="is not the file that was expected: 65,536 bytes"):
        download(server.file("words.txt", size=1000), sets)


def test_a_part_of_another_file_is_noticed(server, sets):
    sets.mkdir()
    (sets / "words.txt.part").write_bytes(b"0" * 600_000)
    assert download(server.file("words.txt"), sets).read_bytes() == server.files["words.txt"]
    assert server.asked == ["bytes=600000-", None]


def test_without_a_published_checksum_that_of_the_first_download_holds(server, sets):
    unknown = server.file("words.txt", sha256="", size=None)
    download(unknown, sets).unlink()
    assert json.loads((sets / RECORD).read_text())["words.txt"]["checksum"].startswith("of the first download")
    download(unknown, sets).unlink()
    server.files["words.txt"] += b"!"
    with pytest.raises(DataError, match=r"it had when it first came, as .*downloads.json says"):
        download(unknown, sets)


def test_without_a_checksum_nothing_goes_on_from_an_earlier_call(server, sets):
    sets.mkdir()
    (sets / "words.txt.part").write_bytes(b"0" * 1000)
    download(server.file("words.txt", sha256="", size=None), sets)
    assert server.asked == [None]


@pytest.mark.parametrize(("code", "tries"), [(404, 1), (403, 1), (503, 4)])
def test_a_server_that_refuses_is_told_and_asked_again_if_that_may_help(server, sets, code, tries):
    server.answers = [code] * 9
    with pytest.raises(UnreachableError, match=rf"words.txt .*answers {code}"):
        download(server.file("words.txt"), sets)
    assert len(server.asked) == tries


def test_a_server_that_recovers_is_forgiven(server, sets):
    server.answers = [503, 500]
    assert download(server.file("words.txt"), sets).is_file()


def test_nobody_there_is_told(sets, monkeypatch):
    monkeypatch.setattr("potluck.data.sets.download.PAUSE", 0.001)
    with pytest.raises(UnreachableError, match=r"http://127.0.0.1:9/x cannot be reached: .*refused"):
        download(RemoteFile("http://127.0.0.1:9/x", "x"), sets)


@pytest.mark.parametrize("variable", ["POTLUCK_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_nothing_is_asked_for_and_what_is_here_is_found(server, sets, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(UnreachableError, match="is set, so nothing is downloaded"):
        download(server.file("words.txt"), sets)
    sets.mkdir(exist_ok=True)
    (sets / "words.txt").write_bytes(b"here")
    assert download(server.file("words.txt"), sets).read_bytes() == b"here"
    assert server.asked == []


def test_two_at_once_ask_once(server, sets):
    workers = [threading.Thread(target=download, args=(server.file("words.txt"), sets)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert server.asked == [None]


def test_other_addresses_and_full_disks_are_told(server, sets, tmp_path):
    with pytest.raises(DataError, match="file:///etc/passwd is no address of the web"):
        download(RemoteFile("file:///etc/passwd", "x"), sets)
    (tmp_path / "a-file").write_text("")
    with pytest.raises(DataError, match=r"words.txt cannot be kept in .*a-file"):
        download(server.file("words.txt"), tmp_path / "a-file")


def test_a_damaged_record_is_no_obstacle(server, sets):
    sets.mkdir()
    (sets / RECORD).write_text("[not json")
    download(server.file("words.txt"), sets)
    assert list(json.loads((sets / RECORD).read_text())) == ["words.txt"]
