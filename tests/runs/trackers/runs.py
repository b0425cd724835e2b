"""Runs for trackers to be told of."""

from __future__ import annotations

import pytest

from potluck.methods import FedAvg
from tests.resumable import resumable


def play(folder, *callbacks, rounds=2, resume=False, **settings):
    """A short run, and its history."""
    federation = resumable(FedAvg(), **settings)
    federation.run(rounds, run_dir=folder, resume=resume, callbacks=callbacks)
    return federation.history


def break_off(folder, tracker, after):
    """A run that breaks off after it has told of a round whose checkpoint was not written."""

    def cut_off(federation, rows):
        if federation.history.rounds == after:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        resumable(FedAvg()).run(9, run_dir=folder, checkpoint_every=2, callbacks=[tracker, cut_off])
