"""Local: every participant trains alone. The row that every comparison needs."""

from __future__ import annotations

from typing import ClassVar

from potluck.core.requests import Fit
from potluck.federation.method import Method, Needs, Steps
from potluck.federation.participant import Participant


class Local(Method):
    """No exchange at all."""

    needs = Needs(tasks="any")
    late_joining: ClassVar[bool] = True

    def round(self, me: Participant) -> Steps:
        yield Fit()
        return None
