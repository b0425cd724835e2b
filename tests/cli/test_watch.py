"""``potluck watch``: what a folder says, in a terminal, in a pipe and in a browser."""

from __future__ import annotations

import os
import pty
import re
import signal
import urllib.request

import pytest

from potluck.cli import watch
from tests.cli.commands import potluck, start
from tests.recipes.files import NETS, write
from tests.watch.folders import row, write_run


def test_a_run_that_is_over(here):
    potluck("run", write(here, NETS), "--out", "kept")
    shown = potluck("watch", "kept").stdout
    assert "FedAvg, seed 0  kept  ended" in shown
    assert "round 2 of 2" in shown


def test_in_a_pipe_it_is_said_once_how_a_run_stands(here):
    write_run(here / "run", row(1, "a"), row(2, "a"))
    assert "round 2 of 10" in potluck("watch", "run").stdout
    assert "round 2 of 10" in potluck("watch", "run", "--once").stdout


def test_what_cannot_be_watched(here):
    assert "There is no folder nowhere" in potluck("watch", "nowhere", fails=2).stderr


def test_without_the_extra_there_is_no_page(here, monkeypatch):
    write_run(here / "run", row(1, "a"))
    monkeypatch.setattr(watch, "find_spec", lambda name: None)
    assert "pip install '.[web]'" in potluck("watch", "run", "--web", fails=2).stderr


@pytest.mark.slow
def test_in_a_terminal_it_goes_on_until_ctrl_c(here):
    write_run(here / "run", row(1, "a"), rounds=3)
    ours, theirs = pty.openpty()
    shown = start("watch", "run", "--every", "0.1", stdout=theirs, stderr=theirs, cwd=here)
    os.close(theirs)
    text = ""
    while "round 1 of 3" not in text:
        text += os.read(ours, 4096).decode()
    write_run(here / "run", row(1, "a"), row(2, "a"), rounds=3)
    while "round 2 of 3" not in text:
        text += os.read(ours, 4096).decode()
    shown.send_signal(signal.SIGINT)
    assert shown.wait(10) == 130
    os.close(ours)


@pytest.mark.slow
def test_in_a_browser_until_ctrl_c(here):
    write_run(here / "run", row(1, "a"))
    served = start("watch", "run", "--web", "--token", "mine", cwd=here)
    address = re.search(r"At (\S+) until", served.stdout.readline())[1]
    assert address.endswith("/?token=mine")
    with urllib.request.urlopen(address.replace("/?", "/events?")) as events:
        assert b'"round": 1' in events.readline()
        served.send_signal(signal.SIGINT)
        served.wait(20)
