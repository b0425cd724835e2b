"""The demo, played once: what it shows must be true, and all of it must be there."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from rich.console import Console

from potluck import data
from potluck.core.errors import SettingsError
from potluck.demo.play import EXAMPLES, OFFICES, participants_of, run_demo, run_federation
from potluck.report import rendering


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    text, histories = io.StringIO(), []

    def run_and_keep(*given):
        histories.append(run_federation(*given))
        return histories[-1]

    threads = torch.get_num_threads()
    with mock.patch("potluck.demo.play.run_federation", run_and_keep):
        run_demo(folder, seeds=1, console=Console(file=text, width=80))
    assert torch.get_num_threads() == threads
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return SimpleNamespace(folder=folder, printed=text.getvalue(), results=results, histories=histories)


def test_they_bring_different_models():
    models = [office.model(len(office.digits)) for office in OFFICES]
    looks = {repr(model) for model in models}
    assert len(looks) == len({office.brings for office in OFFICES}) == len(OFFICES) >= 6


def test_label_spaces_differ_and_overlap():
    spaces = [set(office.digits) for office in OFFICES]
    assert len({office.digits for office in OFFICES}) == len(OFFICES)
    assert all(5 <= len(space) <= 7 for space in spaces)
    for digit in range(10):
        assert sum(digit in space for space in spaces) in (4, 5)


def test_no_image_is_held_twice_or_in_public_too():
    source = data.digits()
    participants, public = participants_of(source, seed=3)
    held = torch.cat([participant.data.x for participant in participants])
    assert len(held) + len(public) == len(source.x)
    together = torch.cat([held, torch.from_numpy(public)]).flatten(1)
    assert len(together.unique(dim=0)) == len(torch.from_numpy(source.x).flatten(1).unique(dim=0))


def test_both_start_alike_and_the_seed_decides():
    source = data.digits()
    (one, public), (same, same_public), (other, _) = (participants_of(source, seed) for seed in (0, 0, 1))
    assert (public == same_public).all()
    for mine, twin, stranger in zip(one, same, other, strict=True):
        torch.testing.assert_close(mine.data.x, twin.data.x)
        assert not torch.equal(mine.data.x, stranger.data.x)
    torch.testing.assert_close(one[2].weights(), same[2].weights())


def test_together_beats_alone(played):
    mean = played.results["mean"]
    assert mean["gain_mean"] > 0.05
    better = [participant["gain_mean"] > 0 for participant in played.results["participants"]]
    assert sum(better) >= len(OFFICES) - 1


def test_the_numbers_are_those_of_the_history(played):
    alone, together = (history.rows() for history in played.histories)
    for told, before, after in zip(played.results["participants"], alone, together, strict=True):
        assert told["name"] == before["participant"] == after["participant"]
        assert told["alone"] == [before["accuracy"]]
        assert told["together"] == [after["accuracy"]]
        assert told["gain"] == [after["accuracy"] - before["accuracy"]]
        assert (told["bytes_up"], told["bytes_down"]) == ([after["bytes_up"]], [after["bytes_down"]])
        assert before["bytes_up"] == before["bytes_down"] == 0
        # A vote is four bytes, a label with its image's number eight.
        assert told["bytes_up"][0] >= 4 * played.results["settings"]["public images"]
        assert told["bytes_down"][0] >= 8 * told["labels_received"][0]


def test_the_table_says_what_the_file_says(played):
    lines = played.printed.splitlines()
    assert max(map(len, lines[: len(OFFICES) + 4])) <= 80
    for office, told in zip(OFFICES, played.results["participants"], strict=True):
        line = next(line for line in lines if line.startswith(office.name))
        assert office.brings in line
        assert {int(character) for character in told["knows"] if character.isdigit()} == set(office.digits)
        scores = [f"{100 * told[name][0]:.1f}" for name in ("alone", "together")]
        scores.append(f"{100 * told['gain'][0]:+.1f}")
        assert line.split()[-5:] == [told["knows"], str(EXAMPLES * len(office.digits)), *scores]
    mean = next(line for line in lines if line.startswith("mean"))
    assert mean.split()[-1] == f"{100 * played.results['mean']['gain_mean']:+.1f}"
    assert "No model and no private image left its owner." in played.printed


def test_nothing_but_text_goes_to_a_file(played):
    assert "\x1b" not in played.printed
    assert "Alone, then together" not in played.printed


def test_the_picture_is_a_png(played):
    assert (played.folder / "alone-and-together.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


class Tags(HTMLParser):
    """Notes the tags, and whether each one that was opened is closed in its turn."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.links = []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(played):
    text = (played.folder / "index.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert not tags.open
    assert tags.links == []
    assert "http:" not in text
    assert "https:" not in text
    assert "<script" not in text
    for office in OFFICES:
        assert office.brings in text


def test_without_altair_there_is_all_but_the_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    text = io.StringIO()
    run_demo(tmp_path, seeds=1, console=Console(file=text, width=80))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "results.json"]
    assert "<img" not in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "drew no picture. Figures need altair" in text.getvalue()
    assert "pip install '.[plots]'" in text.getvalue()


def test_no_seeds_is_said_plainly(tmp_path):
    with pytest.raises(SettingsError, match="seeds is 0"):
        run_demo(tmp_path, seeds=0)
