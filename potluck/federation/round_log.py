"""What is logged of a round: as facts for programs, and as a line for people."""

from __future__ import annotations

from typing import Any

from potluck.core.duration import readable_duration
from potluck.core.history import History, readable_bytes
from potluck.core.metrics import readable, title


def round_facts(history: History, last: int, first: int, seconds: float) -> dict[str, Any]:
    """What there is to say after a round.

    Args:
        history: the history up to it.
        last: how many rounds there are in all.
        first: how many of them had been played before this process began.
        seconds: how long this process has been playing.
    """
    number, standing = history.rounds, history.final
    rows = [row for row in standing.rows if row["took_part"]]
    facts: dict[str, Any] = {"round": number, "rounds": last}
    if standing.score is not None and history.evaluated(number):
        facts |= {"metric": standing.metric, "score": standing.score}
    facts |= {way: sum(row[way] for row in rows) for way in ("bytes_up", "bytes_down")}
    if refused := {row["participant"]: row["refused"] for row in rows if row["refused"]}:
        facts["refused"] = refused
    per_round = seconds / (number - first)
    return {**facts, "seconds": round(seconds, 3), "seconds_left": round(per_round * (last - number), 3)}


def round_in_words(facts: dict[str, Any]) -> str:
    """The line for people."""
    parts = [f"round {facts['round']} of {facts['rounds']}"]
    if "score" in facts:
        parts.append(f"mean {title(facts['metric'])} {readable(facts['metric'], facts['score'])}")
    parts.append(f"received {readable_bytes(facts['bytes_up'])}, sent {readable_bytes(facts['bytes_down'])}")
    if refused := facts.get("refused"):
        parts.append(f"without {', '.join(refused)}")
    if facts["seconds_left"] > 0:
        parts.append(f"about {readable_duration(facts['seconds_left'])} left")
    return f"{parts[0]}: {'; '.join(parts[1:])}"
