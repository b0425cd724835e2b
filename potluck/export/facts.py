"""What an exported model says of itself, in ``potluck.json`` beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from potluck.core.errors import DataError
from potluck.core.labels import Label
from potluck.core.metrics import Metrics
from potluck.core.task_choice import task_from
from potluck.core.tasks import Task

FACTS = "potluck.json"
"""The file's name."""


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProgramInput(_Facts):
    """An input of a network, as it is after preprocessing.

    Args:
        shape: the shape of one sample's.
        dtype: the type of its numbers, such as "float32".
    """

    shape: tuple[int, ...]
    dtype: str


class ColumnFacts(_Facts):
    """A column of the table that a model was trained on.

    Args:
        name: its name.
        dtype: its type, such as "float64", "str" or "category".
        categories: of a category, the values it may have; by default none.
    """

    name: str
    dtype: str
    categories: tuple[Any, ...] | None = None


class ModelFacts(_Facts):
    """Everything about an exported model.

    Args:
        format: the format of the folder.
        participant: whose model it is.
        kind: what the file of the model is: a "torch" program, an estimator kept by "skops" or "xgboost", or by a way
            of its "own".
        model: the class of the model.
        task: the short form of the task.
        task_settings: its settings, as others receive them.
        labels: what the columns of its answers are for; empty for values.
        metric_names: what was measured.
        inputs: the inputs of a network by name; by default none.
        columns: the columns of a table, in order; None where it reads no table with names.
        transform: what is done to inputs within the program, in words.
        preprocess: the class of what prepares inputs, if there is one; by default None.
        occurring: of an estimator, which labels were in its training data, as positions; by default none.
        numbered: whether an estimator knows labels by number alone; by default False.
        metrics: how good it is on test data; by default nothing was measured.
        test_samples: on how many; by default 0.
        test_data: whose test data they are, in words; by default "its own".
        training_samples: how many samples it was trained on.
        plan: the settings of its training.
        method: the name of the method.
        method_settings: its settings.
        about_method: the method in a sentence.
        rounds: after how many rounds it is as it is.
        seed: the federation's seed.
        provenance: where it is from, such as the federation and the server; by default nothing more is known.
        made: when it was written.
        versions: of what it was written with.
        files: the SHA-256 of each file beside this one.
    """

    format: Literal[1] = 1
    participant: str
    kind: Literal["torch", "skops", "xgboost", "own"]
    model: str
    task: str
    task_settings: dict[str, Any]
    labels: tuple[Label, ...]
    metric_names: tuple[str, ...]
    inputs: dict[str, ProgramInput] = Field(default_factory=dict)
    columns: tuple[ColumnFacts, ...] | None = None
    transform: str
    preprocess: str | None = None
    occurring: tuple[int, ...] = ()
    numbered: bool = False
    metrics: Metrics = Field(default_factory=dict)
    test_samples: int = 0
    test_data: str = "its own"
    training_samples: int
    plan: dict[str, Any]
    method: str
    method_settings: dict[str, Any]
    about_method: str
    rounds: int
    seed: int
    provenance: dict[str, str] = Field(default_factory=dict)
    made: str
    versions: dict[str, str]
    files: dict[str, str] = Field(default_factory=dict)

    def build_task(self) -> Task:
        """The task, as far as it can be known without anybody's code."""
        return task_from(self.task, self.task_settings, self.metric_names)

    def write(self, folder: Path) -> None:
        """Writes them beside the model."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
        (folder / FACTS).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> ModelFacts:
        """Reads them, and compares the files beside them with their checksums."""
        path = folder / FACTS
        if not path.is_file():
            raise DataError(
                f"{folder} holds no exported model: there is no {FACTS} in it. `potluck export` writes such a folder."
            )
        try:
            facts = cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise DataError(f"{path} is not what `potluck export` writes: {_first(error)}.") from error
        for name, expected in facts.files.items():
            if Path(name).name != name or not (folder / name).is_file() or checksum(folder / name) != expected:
                raise DataError(f"{folder / name} is not the file that was exported; export the model again.")
        return facts


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        wrong = error.errors()[0]
        return f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
    return str(error)
