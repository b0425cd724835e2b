"""Local: everyone trains alone. The row that every comparison needs."""

from __future__ import annotations

from typing import ClassVar

from potluck.method import Method, Steps
from potluck.participant import Participant
from potluck.requests import Fit


class Local(Method):
    """No exchange at all."""

    late_joining: ClassVar[bool] = True

    def round(self, me: Participant) -> Steps:
        yield Fit()
        return None
