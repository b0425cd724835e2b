"""A run goes on with the history it wrote, or says that it cannot: whatever was done to the file."""

from __future__ import annotations

import hashlib
import json
import random
from contextlib import nullcontext

import pytest

from potluck.federation.fingerprint import fingerprint
from potluck.methods import Local
from potluck.runs import CheckpointError, RunFolder
from potluck.runs.history_file import HistoryFile
from tests.resumable import resumable
from tests.tables import agree, row

NAMES = ("bank", "clinic", "shop")


def written(path, rounds=4):
    """A history file with three rows in each round."""
    file = HistoryFile(path)
    file.take_up([])
    for number in range(1, rounds + 1):
        file.append(row(number, name, number / 10, 10, 20) for name in NAMES)
    return file


def test_what_was_written_is_taken_up(tmp_path):
    file = written(tmp_path / "history.jsonl")
    again = HistoryFile(tmp_path / "history.jsonl")
    history = again.take_up(file.marks)
    assert [r["round"] for r in history.recorded()] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    again.append([row(5, "bank", 1.0)])
    assert again.marks[:4] == file.marks
    assert HistoryFile(tmp_path / "history.jsonl").take_up(again.marks).rounds == 5


def test_the_sum_is_that_of_the_file(tmp_path):
    file = written(tmp_path / "history.jsonl")
    text = (tmp_path / "history.jsonl").read_bytes()
    for _, end, checksum in file.marks:
        assert hashlib.sha256(text[:end]).hexdigest() == checksum


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_what_follows_the_checkpoint_is_dropped(rounds, tmp_path):
    path = tmp_path / "history.jsonl"
    marks = written(path).marks[:rounds]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: 3 * rounds]) + "anything\n" * 5 + '{"cut')
    assert HistoryFile(path).take_up(marks).rounds == rounds
    assert path.read_text() == "".join(lines[: 3 * rounds])


EDITS = {
    "a list": (lambda line: b"[1]", "line 5: it holds a list"),
    "no JSON": (lambda line: line[:-1], "line 5: it is no JSON text"),
    "empty": (lambda line: b"", "line 5: it is no JSON text"),
    "no UTF-8": (lambda line: line.replace(b"clinic", b"clini\xff"), "line 5: it is no JSON text: 'utf-8'"),
    "deep": (lambda line: b"[" * 200_000, "line 5: it is nested too deeply"),
    "no round": (lambda line: line.replace(b'"round": 2, ', b""), "line 5: A row lacks round"),
    "another round": (lambda line: line.replace(b'"round": 2', b'"round": 1'), "line 5: it is of round 1"),
    "another number": (lambda line: line.replace(b"0.2,", b"0.9,"), "lines 4 to 6 were changed"),
    "another order": (lambda line: json.dumps(dict(sorted(json.loads(line).items()))).encode(), "lines 4 to 6"),
    "once more": (lambda line: line + b"\n" + line, "lines 4 to 6 were changed"),
}


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("later", [True, False], ids=["with what follows", "at the end"])
def test_what_was_changed_is_told_in_words(edit, message, later, tmp_path):
    path = tmp_path / "history.jsonl"
    marks = written(path).marks
    lines = path.read_bytes().splitlines()[: None if later else 6]
    lines[4] = edit(lines[4])
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(CheckpointError, match=r"history\.jsonl is not what was written up to the checkpoint") as found:
        HistoryFile(path).take_up(marks if later else marks[:2])
    assert "In round 2, " in str(found.value)
    assert message in str(found.value)


@pytest.mark.parametrize("left", [0, 1, 3, 5])
def test_missing_lines_are_told(left, tmp_path):
    path = tmp_path / "history.jsonl"
    marks = written(path).marks
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:left]))
    with pytest.raises(CheckpointError, match=f"the file ends with line {left}, and lines are missing"):
        HistoryFile(path).take_up(marks)


def test_a_file_that_somebody_else_writes_is_not_appended_to(tmp_path):
    path = tmp_path / "history.jsonl"
    file = written(path)
    with path.open("a") as other:
        other.write("{}\n")
    with pytest.raises(CheckpointError, match=r"has \d+ bytes where this run wrote \d+: somebody else changed it"):
        file.append([row(5, "bank", 1.0)])


def changed(text, moments):
    """The text with one byte or one line changed."""
    lines = text.splitlines(keepends=True)
    place, line = moments.randrange(len(text)), moments.randrange(len(lines))
    match moments.choice(("byte", "byte", "byte", "out", "in", "drop", "twice", "swap", "value")):
        case "byte":
            return text[:place] + bytes([text[place] ^ moments.randrange(1, 256)]) + text[place + 1 :]
        case "out":
            return text[:place] + text[place + 1 :]
        case "in":
            return text[:place] + bytes([moments.randrange(256)]) + text[place:]
        case "drop":
            del lines[line]
        case "twice":
            lines.insert(line, lines[line])
        case "swap":
            other = moments.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
        case "value":
            changed_row = json.loads(lines[line])
            name = moments.choice([name for name in changed_row if name != "round"])
            changed_row[name] = moments.choice([0, 1.0, None, "x", [1], True])
            lines[line] = json.dumps(changed_row).encode() + b"\n"
    return b"".join(lines)


@pytest.mark.parametrize(("rounds", "every"), [(4, 1), (5, 3)])
def test_no_changed_history_is_taken_up_silently(rounds, every, tmp_path):
    """Where a checkpoint is written every few rounds, the file holds what follows it, too: that is dropped."""
    played = _played_until(tmp_path, rounds, every)
    history, identity = tmp_path / "history.jsonl", fingerprint(played)
    whole, moments = history.read_bytes(), random.Random(rounds)
    assert taken_up(tmp_path, identity).rounds == rounds - rounds % every
    known = history.read_bytes()
    assert whole.startswith(known)
    assert (whole == known) == (every == 1)
    refused = 0
    for _ in range(200):
        tampered = changed(whole, moments)
        history.write_bytes(tampered)
        harmless = tampered.startswith(known)
        with nullcontext() if harmless else pytest.raises(CheckpointError, match=r"line \d|lines \d|lines are missing"):
            found = taken_up(tmp_path, identity)
        refused += not harmless
        if harmless:
            assert history.read_bytes() == known
            assert list(found.recorded()) == [json.loads(line) for line in known.splitlines()]
    assert refused > 100


def _played_until(folder, rounds, every):
    """A federation that was cut off after the history of a round was written, as far as its checkpoints go."""

    def cut_off(federation, rows):
        if federation.history.rounds == rounds:
            raise InterruptedError

    federation = resumable(Local())
    with pytest.raises(InterruptedError):
        federation.run(rounds + 1, run_dir=folder, checkpoint_every=every, callbacks=[cut_off])
    return federation


def taken_up(path, identity):
    with RunFolder(path, resume=True) as folder:
        return folder.begin({}, identity)[1]


def test_a_run_says_which_line_is_wrong_before_it_goes_on(tmp_path):
    resumable(Local()).run(2, run_dir=tmp_path)
    history = tmp_path / "history.jsonl"
    settings = (tmp_path / "settings.json").read_bytes()
    lines = history.read_bytes().splitlines(keepends=True)
    history.write_bytes(b"".join([lines[0], b"[]\n", *lines[2:]]))
    with pytest.raises(CheckpointError, match="In round 1, line 2: it holds a list"):
        resumable(Local(), seed=1).run(3, run_dir=tmp_path, resume=True)
    assert (tmp_path / "settings.json").read_bytes() == settings
    history.write_bytes(b"".join(lines))
    unbroken = resumable(Local()).run(3).rows()
    agree(unbroken, resumable(Local()).run(3, run_dir=tmp_path, resume=True).rows(), 0)


def test_a_round_of_one_line_is_named_by_it(tmp_path):
    path = tmp_path / "history.jsonl"
    path.touch()
    file = HistoryFile(path)
    file.append([row(1, "a", 0.5), row(2, "a", 0.25)])
    path.write_bytes(path.read_bytes().replace(b'"accuracy": 0.25', b'"accuracy": 0.35'))
    with pytest.raises(CheckpointError, match="In round 2, line 2 was changed"):
        HistoryFile(path).take_up(file.marks)
