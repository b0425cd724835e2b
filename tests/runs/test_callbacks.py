"""Callbacks are told of a run in order, and may end it."""

from __future__ import annotations

import json

import pytest

import potluck
from potluck.methods import Local
from potluck.runs import Callback
from potluck.runs.callbacks import Callbacks
from tests.resumable import resumable


class Listener(Callback):
    """Notes what it is told, and stops a run after a round."""

    def __init__(self, last=None):
        self.told, self.last = [], last

    def begin(self, federation):
        self.told.append(("begin", federation.history.rounds, federation.last_round))

    def round(self, federation, rows):
        self.told.append(("round", federation.history.rounds, len(rows)))
        if federation.history.rounds == self.last:
            federation.stop("enough")

    def summary(self):
        return {"heard": len(self.told)}

    def end(self, federation, error):
        self.told.append(("end", federation.history.rounds, error))


def test_objects_and_functions_are_told_in_the_order_given(tmp_path):
    first, order = Listener(), []
    callbacks = [first, lambda federation, rows: order.append((federation.history.rounds, len(first.told)))]
    resumable(Local()).run(2, run_dir=tmp_path, callbacks=callbacks)
    assert first.told == [("begin", 0, 2), ("round", 1, 3), ("round", 2, 3), ("end", 2, None)]
    assert order == [(1, 2), (2, 3)]
    assert json.loads((tmp_path / "summary.json").read_text())["heard"] == 3


def test_one_may_end_the_run_which_then_stands_as_one_of_that_length(tmp_path):
    federation, listener = resumable(Local()), Listener(last=2)
    history = federation.run(5, run_dir=tmp_path / "stopped", checkpoint_every=4, callbacks=[listener])
    assert (history.rounds, federation.stopped) == (2, "enough")
    summary = json.loads((tmp_path / "stopped/summary.json").read_text())
    assert (summary["rounds"], summary["stopped"]) == (2, "enough")
    gone_on = resumable(Local()).run(4, run_dir=tmp_path / "stopped", resume=True)
    assert [row["accuracy"] for row in gone_on.rows()] == [row["accuracy"] for row in resumable(Local()).run(4).rows()]
    assert "stopped" not in json.loads((tmp_path / "stopped/summary.json").read_text())


def test_one_that_stops_before_the_first_round_has_none_played():
    class Never(Callback):
        def begin(self, federation):
            federation.stop("never mind")

    federation = resumable(Local())
    assert federation.run(3, callbacks=[Never()]).rounds == 0
    assert federation.run(1).rounds == 1, "the next run begins anew"


def test_an_error_ends_the_run_and_is_told(tmp_path):
    def fails(federation, rows):
        raise InterruptedError("no")

    listener = Listener()
    with pytest.raises(InterruptedError):
        resumable(Local()).run(2, run_dir=tmp_path, callbacks=[listener, fails])
    what, rounds, error = listener.told[-1]
    assert (what, rounds) == ("end", 1)
    assert isinstance(error, InterruptedError)


def test_what_is_told_of_the_run(tmp_path):
    seen = {}

    class Reader(Callback):
        def begin(self, federation):
            seen.update(folder=federation.run_dir, settings=federation.settings(), people=list(federation.participants))

    resumable(Local()).run(1, run_dir=tmp_path, callbacks=[Reader()])
    assert seen["folder"] == tmp_path
    assert seen["settings"]["method"]["name"] == "Local"
    assert seen["people"] == ["p0", "p1", "p2"]


@pytest.mark.parametrize("wrong", [3, Listener, "tensorboard"])
def test_what_is_no_callback(wrong):
    with pytest.raises(potluck.SettingsError, match=r"callbacks holds .*; expected an object such as"):
        Callbacks([wrong])
