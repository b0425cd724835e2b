"""A federation's run in a folder: taken up where it was left, then stored round by round."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potluck.core.errors import PotluckError
from potluck.federation.evaluation import only_looking
from potluck.federation.fingerprint import check_resumable, fingerprint, settings_as_run
from potluck.runs import checkpoint
from potluck.runs.checkpoint import CheckpointError
from potluck.runs.folder import RunFolder
from potluck.runs.live import LIVE, LiveFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from potluck.federation.federation import Federation


class StoredRun:
    """A run and its folder, which is locked in a ``with`` block.

    Args:
        federation: the federation that runs.
        run_dir: the folder.
        resume: whether it may already hold a run, which is then continued.
    """

    def __init__(self, federation: Federation, run_dir: str | os.PathLike[str], resume: bool) -> None:
        self.path = Path(run_dir)
        self._federation = federation
        self._folder = RunFolder(run_dir, resume=resume)
        self._begun = False
        self._every, self._saved = 1, 0
        self._live = LiveFile(self.path / LIVE)

    def __enter__(self) -> StoredRun:
        self._folder.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._live.end(error, self._federation.stopped)
        self._folder.__exit__()

    def watched(self, rounds: int) -> LiveFile:
        """Says from now on in the folder what is going on, until the run ends."""
        self._live.begin(rounds, self._federation.history.rounds)
        return self._live

    def begin(self, checkpoint_every: int = 1) -> None:
        """Makes sure that everything can be stored, then restores the folder's newest checkpoint, if there is one.

        Args:
            checkpoint_every: after how many rounds a checkpoint is written; by default 1.
        """
        federation, self._every = self._federation, checkpoint_every
        with only_looking(federation.participants):
            self._fingerprint = fingerprint(federation)
        if self._begun:
            return
        for participant in federation.participants.values():
            participant.check_keepable()
        found = self._folder.begin(settings_as_run(federation), self._fingerprint)
        if found is None:
            self._folder.append(federation.history.recorded())
        else:
            people = federation.participants.values()
            check_resumable(
                people, federation.method, federation.keep_optimizer, federation.channel, federation.participation
            )
            try:
                if set(found[0]["participants"]) != set(federation.participants):
                    raise ValueError("it is of other participants")
                federation.restore(*found)
            except checkpoint.UNREADABLE as error:
                if isinstance(error, PotluckError):
                    raise
                raise CheckpointError(
                    f"The newest checkpoint in {self.path} holds what this federation has not written "
                    f"({type(error).__name__}: {error}). Start again in a new folder."
                ) from error
            self._saved = federation.history.rounds
        self._begun = True

    def keep(self, number: int) -> None:
        """Stores what was recorded of a round, and then, if it is time, a checkpoint."""
        federation = self._federation
        with federation.engine.timing["checkpoint"]:
            self._folder.append(federation.history.recorded(number))
            if number % self._every == 0 or number == federation.last_round:
                self._save(number)

    def _save(self, number: int) -> None:
        with only_looking(self._federation.participants):
            self._folder.save(number, self._federation.snapshot(), self._fingerprint)
        self._saved = number

    def finish(self, about: Mapping[str, Any]) -> None:
        """Writes a checkpoint of the last round, where it has none, and how the run stands, with what else is known."""
        if self._federation.history.rounds > self._saved:
            self._save(self._federation.history.rounds)
        self._folder.finish(self._federation.history, about)
