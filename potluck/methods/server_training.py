"""Methods whose server trains a model of its own, by a plan that is one of their settings."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from potluck.core.plan import Plan
from potluck.federation.method import Method


class ServerTraining(Method):
    """A few settings of the server's plan leave its other defaults as they are.

    Args:
        server_plan: how the server trains; a dict changes some settings of the default.
    """

    server_plan: Plan = Plan()

    @field_validator("server_plan", mode="before")
    @classmethod
    def _rest_as_by_default(cls, plan: Any) -> Any:
        return cls.model_fields["server_plan"].default.replace(**plan) if isinstance(plan, dict) else plan
