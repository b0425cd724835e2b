"""A study of tables in a simulation: the method Describe, played among participants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from potluck.federation.federation import Federation
from potluck.federation.participant import Participant
from potluck.methods.describe import Describe
from potluck.preparation.description import Description


def describe(participants: Iterable[Participant], **settings: Any) -> Description:
    """What participants' tables have in common, by what each may disclose (``Participant(disclosure=…)``).

    Their models are not used, and what is preprocessed later is described as it was brought.

    Args:
        participants: whose tables are described.
        **settings: those of ``Describe``, such as ``categories=("sex",)``.
    """
    study = Federation(participants, Describe(**settings), engine="serial")
    study.run(0)
    return Description(**study.server.state["description"])
