"""Tracks runs with MLflow: a run in an experiment, with settings, metrics and files."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from potluck.runs.folder import replace_file
from potluck.runs.trackers.tracker import RoundValues, TrackedRun, Tracker

KNOWN = "mlflow.json"
"""The file of a run folder that says which run of MLflow's it is, so that it goes on there."""
BATCH = 100
"""So many settings, and metrics, MLflow takes in one request."""
LONGEST = 500
"""How long a setting may be."""


class MLflow(Tracker):
    """Writes a run of MLflow. Needs the extra ``mlflow``.

    Args:
        uri: where MLflow keeps it, such as "sqlite:///mlflow.db" or a server's address; by default as MLflow says
            (``MLFLOW_TRACKING_URI``).
        experiment: the experiment; by default "potluck".
        name: what the run is called; by default its method and seed.
        participants: whether each participant's metrics are recorded, too; by default only their mean and the worst.
    """

    NEEDS = ("mlflow", "sqlalchemy", "alembic")

    def __init__(
        self,
        uri: str | None = None,
        experiment: str = "potluck",
        name: str | None = None,
        participants: bool = False,
    ) -> None:
        super().__init__(name, participants)
        self.uri, self.experiment = uri, experiment
        self._client: Any = None
        self._run = ""
        self._logged = 0

    def open(self, run: TrackedRun) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri=self.uri)
        known = None if run.folder is None else run.folder / KNOWN
        if run.played and known is not None and known.is_file():
            self._run = json.loads(known.read_text(encoding="utf-8"))["run"]
            self._client.update_run(self._run, status="RUNNING")
            # an earlier process may have told of rounds that are played again, with the same values
            points = self._client.get_metric_history(self._run, "bytes_up")
            self._logged = max((point.step for point in points), default=0)
            return
        found = self._client.get_experiment_by_name(self.experiment)
        where = found.experiment_id if found is not None else self._client.create_experiment(self.experiment)
        self._run, self._logged = self._client.create_run(where, run_name=run.name).info.run_id, 0
        if known is not None:
            replace_file(known, json.dumps({"run": self._run, "experiment": self.experiment}) + "\n")
        params = [Param(_key(key), str(value)[:LONGEST]) for key, value in run.settings.items()]
        for start in range(0, len(params), BATCH):
            self._client.log_batch(self._run, params=params[start : start + BATCH])

    def write(self, round: int, values: RoundValues) -> None:
        from mlflow.entities import Metric

        if round <= self._logged:
            return
        now = int(1000 * time.time())
        points = [Metric(_key(name), float(value), now, round) for name, value in values.items()]
        for start in range(0, len(points), BATCH):
            self._client.log_batch(self._run, metrics=points[start : start + BATCH])

    def close(self, artifacts: list[Path], error: BaseException | None) -> None:
        for path in artifacts:
            self._client.log_artifact(self._run, str(path))
        ended = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED" if error is not None else "FINISHED"
        self._client.set_terminated(self._run, status=ended)


def _key(name: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w\-. :/]", "_", name)
