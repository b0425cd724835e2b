"""Tracks runs with TensorBoard: event files that ``tensorboard --logdir runs`` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from potluck.core.errors import SettingsError
from potluck.runs.trackers.tracker import RoundValues, TrackedRun, Tracker


class TensorBoard(Tracker):
    """Writes event files, by default into ``tensorboard`` of the run folder. Needs the extra ``tensorboard``.

    Args:
        folder: where they go, into a folder of the run's name; by default into the run folder.
        name: what the run is called; by default its method and seed.
        participants: whether each participant's metrics are recorded, too; by default only their mean and the worst.
    """

    NEEDS = ("tensorboard",)

    def __init__(self, folder: str | None = None, name: str | None = None, participants: bool = False) -> None:
        super().__init__(name, participants)
        self.folder = folder
        self._writer: Any = None

    def open(self, run: TrackedRun) -> None:
        if self.folder is None and run.folder is None:
            raise SettingsError("TensorBoard has no folder to write to; give it a `folder`, or the run one.")
        from torch.utils.tensorboard import SummaryWriter

        place = Path(run.folder or "", "tensorboard") if self.folder is None else Path(self.folder, run.name)
        # what an earlier process wrote of rounds that are played again is not shown
        self._writer = SummaryWriter(str(place), purge_step=run.played + 1 if run.played else None)
        self._writer.add_text("settings", f"```\n{json.dumps(run.settings, indent=1, default=str)}\n```", run.played)

    def write(self, round: int, values: RoundValues) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def close(self, artifacts: list[Path], error: BaseException | None) -> None:
        self._writer.close()
