"""What a participant has done for one federation, on disk: a restart does not have it done again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from potluck.core.errors import PayloadError
from potluck.flower.client_store import write_whole
from potluck.flower.policy import Policy, PolicyError


@dataclass
class Spent:
    """What was spent.

    Args:
        trainings: how many rounds were begun, those that were played again counted again.
        bytes: how many bytes have left.
        seconds: how long it has worked.
        evaluated: the metrics that were told of each round when the server asked for them.
    """

    trainings: int = 0
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

    def begin_round(self) -> None:
        """Counts a round that begins, if there is one left."""
        if self.spent.trainings >= (most := self._policy.trainings(self._rounds)):
            raise PolicyError(f"the owner's policy allows {most} trainings in this federation, which are done")
        self.check()
        self.spent.trainings += 1
        self._keep()

    def check(self) -> None:
        """Raises PolicyError where nothing is left to work or to send with."""
        hours, most = self._policy.max_hours, self._policy.max_bytes
        if hours is not None and self.spent.seconds >= 3600 * hours:
            raise PolicyError(f"the owner's policy allows {hours:g} hours in this federation, which are over")
        if most is not None and self.spent.bytes >= most:
            raise PolicyError(f"the owner's policy allows {most} bytes in this federation, which have left")

    def send(self, size: int, seconds: float) -> None:
        """Counts what leaves, and the work that it took, if it may leave."""
        if self._policy.max_bytes is not None and self.spent.bytes + size > self._policy.max_bytes:
            raise PolicyError(f"the owner's policy allows {self._policy.max_bytes} bytes in this federation")
        self.spent.bytes += size
        self.spent.seconds += seconds
        self._keep()

    def evaluation(self, round: int) -> Any:
        """What was told of a round before, if the server has asked for it."""
        return self.spent.evaluated.get(str(round))

    def keep_evaluation(self, round: int, told: Any) -> None:
        """Notes what is told of a round: it is not measured again, with other weights."""
        self.spent.evaluated[str(round)] = told
        self._keep()

    def _keep(self) -> None:
        write_whole(self._path, json.dumps(asdict(self.spent)).encode())
