"""Checkpoints: which formats are read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from potluck.runs import checkpoint
from potluck.runs.checkpoint import CheckpointError

FINGERPRINT = {"method": "a"}


def written(folder, format: object = checkpoint.FORMAT, **others: object):
    """A checkpoint as it would be with another number of its format, or other facts, with checksums that are right."""
    checkpoint.write(folder, 4, {"weights": torch.ones(2)}, FINGERPRINT)
    path = folder / "round-00000004" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["own sha256"]
    manifest |= {"format": format, **others}
    path.write_text(json.dumps({**manifest, "own sha256": checkpoint._digest(manifest)}))
    return folder


def test_this_versions_format_is_read(tmp_path):
    round, state = checkpoint.read_newest(written(tmp_path, checkpoint.FORMAT), FINGERPRINT)
    assert round == 4
    assert state["weights"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("format", "advice"),
    [(2, "Potluck at commit d526047, of version 0.1.0, reads format 2"), (99, r"Use Potluck \S+, which wrote it")],
)
def test_another_format_is_refused_by_its_number(format, advice, tmp_path):
    with pytest.raises(CheckpointError, match=rf"has format {format}; .* reads format 3 only.*{advice}"):
        checkpoint.read_newest(written(tmp_path, format), FINGERPRINT)
    assert (tmp_path / "round-00000004").is_dir()  # set aside only what is damaged


@pytest.mark.parametrize("writer", [None, 5, "1.0\n\x1b[31mall is well"])
def test_a_writer_that_does_not_say_its_version_in_plain_text_is_not_quoted(writer, tmp_path):
    with pytest.raises(CheckpointError, match="Use the version of Potluck, which wrote it, to finish the run"):
        checkpoint.read_newest(written(tmp_path, 99, potluck=writer), FINGERPRINT)


def written_rounds(folder, *numbers):
    for number in numbers:
        checkpoint.write(folder, number, {"number": number}, FINGERPRINT)
    return [path.name for path in sorted(folder.iterdir())]


def damage(folder, number):
    (folder / f"round-{number:08d}" / "state.json").write_text("{}")


def test_the_two_newest_stay(tmp_path):
    assert written_rounds(tmp_path, 1, 2, 10) == ["round-00000002", "round-00000010"]
    assert checkpoint.read_newest(tmp_path, FINGERPRINT) == (10, {"number": 10})


def test_without_any_there_is_nothing_to_go_on_from(tmp_path):
    assert checkpoint.read_newest(tmp_path / "none", FINGERPRINT) is None
    assert checkpoint.read_until(tmp_path / "none", 3, FINGERPRINT) is None
    assert checkpoint.newest(tmp_path / "none", 3) is None


def test_the_newest_says_what_it_belongs_to(tmp_path):
    assert checkpoint.fingerprint_of(tmp_path) == {}
    written_rounds(tmp_path, 1, 2)
    assert checkpoint.fingerprint_of(tmp_path) == FINGERPRINT
    (tmp_path / "round-00000002" / "manifest.json").write_text("{")
    assert checkpoint.fingerprint_of(tmp_path) == FINGERPRINT  # that of the round before


def test_a_round_that_is_written_again_takes_the_place_of_the_first(tmp_path):
    written_rounds(tmp_path, 3)
    checkpoint.write(tmp_path, 3, {"number": "again"}, FINGERPRINT)
    assert checkpoint.read_newest(tmp_path, FINGERPRINT) == (3, {"number": "again"})


def test_what_was_not_finished_is_no_checkpoint(tmp_path):
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "left over").touch()
    assert written_rounds(tmp_path, 1) == ["round-00000001"]
    assert not (tmp_path / "round-00000001" / "left over").exists()


def test_a_damaged_one_is_set_aside_as_often_as_it_is_damaged(tmp_path, caplog):
    for _ in range(2):
        written_rounds(tmp_path, 1, 2)
        damage(tmp_path, 2)
        assert checkpoint.read_newest(tmp_path, FINGERPRINT) == (1, {"number": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged-00000002", "round-00000001"]
    assert "state.json is not what was written. Kept as damaged-00000002" in caplog.text


def test_a_manifest_that_was_changed_is_no_manifest(tmp_path):
    written_rounds(tmp_path, 1)
    path = tmp_path / "round-00000001" / "manifest.json"
    path.write_text(path.read_text().replace('"round": 1', '"round": 7'))
    with pytest.raises(CheckpointError, match=r"Every checkpoint in .* is damaged"):
        checkpoint.read_newest(tmp_path, FINGERPRINT)


@pytest.mark.parametrize("odd", [{"federation": ["method"]}, {"sha256": "none"}, {"round": "4"}, {"round": True}])
def test_a_manifest_that_holds_other_things_is_no_manifest(odd, tmp_path):
    """Even one whose checksum is right, as of a program that wrote it otherwise."""
    with pytest.raises(CheckpointError, match=r"Every checkpoint in .* is damaged"):
        checkpoint.read_newest(written(tmp_path, **odd), FINGERPRINT)


@pytest.mark.parametrize("other", [{"method": "b"}, {"method": "a", "seed": "1"}, {}])
def test_one_of_another_federation_is_no_damage(other, tmp_path):
    written_rounds(tmp_path, 1)
    named = "seed" if "seed" in other else "method"
    with pytest.raises(CheckpointError, match=f"belongs to another federation: {named} differ"):
        checkpoint.read_newest(tmp_path, other)
    assert (tmp_path / "round-00000001").is_dir()


def test_the_newest_up_to_a_round_and_looking_removes_nothing(tmp_path):
    written_rounds(tmp_path, 3, 5)
    assert [checkpoint.newest(tmp_path, round) for round in (2, 3, 4, 5, 6)] == [None, 3, 3, 5, 5]
    assert checkpoint.read_until(tmp_path, 5, FINGERPRINT) == (5, {"number": 5})
    assert checkpoint.read_until(tmp_path, 4, FINGERPRINT) == (3, {"number": 3})
    assert checkpoint.read_until(tmp_path, 2, FINGERPRINT) is None
    assert checkpoint.newest(tmp_path, 6) == 5
    checkpoint.forget_from(tmp_path, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["round-00000003"]


def test_up_to_a_round_damage_is_an_error(tmp_path):
    """Whoever must be at one round cannot go on from the one before."""
    written_rounds(tmp_path, 3, 5)
    damage(tmp_path, 5)
    with pytest.raises(checkpoint.DamagedError, match=r"state\.json is not what was written"):
        checkpoint.read_until(tmp_path, 5, FINGERPRINT)


def test_a_round_and_all_after_it_are_forgotten(tmp_path):
    written_rounds(tmp_path, 3, 5)
    checkpoint.forget_from(tmp_path, 6)
    assert checkpoint.newest(tmp_path, 9) == 5
    checkpoint.forget_from(tmp_path, 5)
    assert checkpoint.newest(tmp_path, 9) == 3
    checkpoint.forget_from(tmp_path, 1)
    assert checkpoint.newest(tmp_path, 9) is None


class Made(Mapping[str, object]):
    """Entries that are made when they are asked for."""

    def __init__(self, names):
        self.names = names

    def __getitem__(self, name):
        return {"of": name, "value": torch.full((2,), self.names.index(name))}

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)


def test_many_entries_are_in_files_of_their_own_each_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD", 2)
    names = ["c", "a", "e", "b", "d"]
    checkpoint.write(tmp_path, 1, {"people": Made(names), "server": {"x": 1}}, FINGERPRINT)
    files = sorted(path.name for path in (tmp_path / "round-00000001").glob("people-*"))
    assert files == [f"people-0000{number}.safetensors" for number in range(3)]
    opened = []
    read = checkpoint.read_state
    monkeypatch.setattr(checkpoint, "read_state", lambda path: opened.append(path.name) or read(path))
    found = checkpoint.read_newest(tmp_path, FINGERPRINT)
    assert found is not None
    _, state = found
    assert state["server"] == {"x": 1}
    assert opened == [], "nothing is read before it is asked for"
    assert len(state["people"]) == 5
    assert {name: part["value"].tolist() for name, part in state["people"].items()} == {
        name: [place, place] for place, name in enumerate(names)
    }
    assert list(state["people"]) == names
    assert opened == files


def test_everything_is_on_the_disk_before_the_checkpoint_counts(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def note(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((path.name, (tmp_path / "round-00000001").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    open_before = len(os.listdir("/proc/self/fd"))
    written_rounds(tmp_path, 1)
    assert sorted(synced[:4]) == [(name, False) for name in CHECKPOINT]
    assert synced[4:] == [(tmp_path.name, True)], "at last that it has its name"
    assert len(os.listdir("/proc/self/fd")) == open_before


CHECKPOINT = ["manifest.json", "state.json", "tensors.safetensors", "unfinished"]


def test_the_latest_is_read_and_everything_stays_as_it_is(tmp_path):
    for number in (1, 2):
        checkpoint.write(tmp_path, number, {"number": number}, FINGERPRINT)
    assert checkpoint.read_latest(tmp_path, FINGERPRINT) == (2, {"number": 2})
    (tmp_path / "round-00000002" / "state.json").write_text("damaged")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert checkpoint.read_latest(tmp_path, FINGERPRINT) == (1, {"number": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert checkpoint.read_latest(tmp_path / "none", FINGERPRINT) is None


def test_some_of_a_fingerprint_may_differ(tmp_path):
    checkpoint.write(tmp_path, 1, {"number": 1}, FINGERPRINT)
    name = next(iter(FINGERPRINT))
    other = {**FINGERPRINT, name: "other"}
    with pytest.raises(checkpoint.CheckpointError, match=f"{name} differ"):
        checkpoint.read_latest(tmp_path, other)
    assert checkpoint.read_latest(tmp_path, other, may_differ=[name]) == (1, {"number": 1})
