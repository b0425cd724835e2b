"""Tracks runs with Weights & Biases: by default offline, in files that ``wandb sync`` uploads if somebody wants to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from potluck.runs.folder import replace_file
from potluck.runs.trackers.tracker import RoundValues, TrackedRun, Tracker

KNOWN = "wandb.json"
"""The file of a run folder that says which run of Weights & Biases it is, so that it goes on there."""


class WandB(Tracker):
    """Writes a run of Weights & Biases. Needs the extra ``wandb``.

    Args:
        project: the project; by default "potluck".
        mode: "offline" (the default) sends nothing anywhere; "online" sends everything as it happens.
        folder: where its files go; by default into the run folder.
        name: what the run is called; by default its method and seed.
        participants: whether each participant's metrics are recorded, too; by default only their mean and the worst.
    """

    NEEDS = ("wandb",)

    def __init__(
        self,
        project: str = "potluck",
        mode: Literal["offline", "online"] = "offline",
        folder: str | None = None,
        name: str | None = None,
        participants: bool = False,
    ) -> None:
        super().__init__(name, participants)
        self.project, self.mode, self.folder = project, mode, folder
        self._run: Any = None

    def open(self, run: TrackedRun) -> None:
        import wandb

        known = None if run.folder is None else run.folder / KNOWN
        goes_on = run.played and known is not None and known.is_file()
        identity = json.loads(known.read_text(encoding="utf-8"))["run"] if goes_on and known is not None else None
        place = self.folder if self.folder is not None else run.folder
        if place is not None:
            Path(place).mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=self.project,
            name=run.name,
            id=identity,
            resume="allow" if identity else None,
            mode=self.mode,
            dir=None if place is None else str(place),
            config=dict(run.settings),
            reinit="create_new",
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True
            ),
        )
        if known is not None:
            replace_file(known, json.dumps({"run": self._run.id, "project": self.project}) + "\n")

    def write(self, round: int, values: RoundValues) -> None:
        self._run.log(dict(values), step=round)

    def close(self, artifacts: list[Path], error: BaseException | None) -> None:
        if artifacts:
            import wandb

            kept = wandb.Artifact(f"run-{self._run.id}", type="run")
            for path in artifacts:
                kept.add_file(str(path))
            self._run.log_artifact(kept)
        self._run.finish(exit_code=int(error is not None))
