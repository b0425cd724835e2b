"""What a participant has done for one federation, on disk: a restart does not have it done again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from potluck.core.errors import PayloadError
from potluck.core.exchange_order import Phase
from potluck.flower.client_store import write_whole
from potluck.flower.policy import Policy, PolicyError

JOININGS = 100
"""How often one federation may have a participant join: a server that dies before its first checkpoint begins again."""


@dataclass
class Spent:
    """What was spent.

    Args:
        trainings: how many rounds were begun, those that were played again counted again.
        joinings: how many times it began to join.
        bytes: how many bytes have left, those that were sent again counted again.
        seconds: how long it has worked, also for what came to nothing.
        evaluated: the metrics that were sent when the server asked for them, by the round after which they were.
    """

    trainings: int = 0
    joinings: int = 0
    bytes: int = 0
    seconds: float = 0.0
    evaluated: dict[str, Any] = field(default_factory=dict)


class Ledger:
    """What is left of an owner's budget for one federation.

    Args:
        path: its file.
        policy: the budget.
        rounds: how many rounds were agreed to.
    """

    def __init__(self, path: Path, policy: Policy, rounds: int) -> None:
        self._path, self._policy, self._rounds = path, policy, rounds
        self.spent = Spent()
        if path.exists():
            try:
                self.spent = Spent(**json.loads(path.read_text()))
            except (ValueError, TypeError) as error:
                raise PayloadError(f"{path} cannot be read: {error}; what was spent is not known") from error

    def begin(self, phase: Phase) -> None:
        """Counts a phase that begins, if there is one left."""
        if phase == "join":
            done, most, what = self.spent.joinings, JOININGS, "joinings"
        else:
            done, most, what = self.spent.trainings, self._policy.trainings(self._rounds), "trainings"
        if done >= most:
            raise PolicyError(f"the owner's policy allows {most} {what} in this federation, which are done")
        self.check()
        setattr(self.spent, what, done + 1)
        self._keep()

    def check(self) -> None:
        """Raises PolicyError where nothing is left to work or to send with."""
        hours, most = self._policy.max_hours, self._policy.max_bytes
        if hours is not None and self.spent.seconds >= 3600 * hours:
            raise PolicyError(f"the owner's policy allows {hours:g} hours in this federation, which are over")
        if most is not None and self.spent.bytes >= most:
            raise PolicyError(f"the owner's policy allows {most} bytes in this federation, which have left")

    def send(self, size: int) -> None:
        """Counts what leaves, if it may leave."""
        if self._policy.max_bytes is not None and self.spent.bytes + size > self._policy.max_bytes:
            raise PolicyError(f"the owner's policy allows {self._policy.max_bytes} bytes in this federation")
        self.spent.bytes += size
        self._keep()

    @contextmanager
    def work(self) -> Iterator[None]:
        """Counts how long the work inside takes, whatever comes of it."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent.seconds += time.perf_counter() - began
            self._keep()

    def evaluation(self, round: int) -> Any:
        """What was sent before of how it stood after a round, if the server has asked for it."""
        return self.spent.evaluated.get(str(round))

    def keep_evaluation(self, round: int, told: Any) -> None:
        """Notes what is sent of how it stood after a round: that is not measured again, with other weights."""
        self.spent.evaluated[str(round)] = told
        self._keep()

    def _keep(self) -> None:
        write_whole(self._path, json.dumps(asdict(self.spent)).encode())
