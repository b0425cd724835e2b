"""What the figures of a report show, as plain rows: the same that is drawn is what their CSV files hold."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from potluck.report.comparison import spread
from potluck.report.significance import Significance
from potluck.report.standings import Standings
from potluck.report.trials import Course, Entry

Rows = list[dict[str, Any]]


def curves(standings: Standings) -> Rows:
    """For each entry and round the mean over seeds of the participants' mean, with a band of one deviation.

    Bytes and seconds are those of all participants up to there, on average over seeds.
    """
    rows: Rows = []
    for entry in standings.shown:
        by_round: dict[int, list[tuple[Course, int]]] = {}
        for trial in standings.of(entry).values():
            course = trial.course(standings.metric.name)
            for place, number in enumerate(course.rounds):
                if course.means[place] is not None:
                    by_round.setdefault(number, []).append((course, place))
        for number, places in sorted(by_round.items()):
            values = [standings.metric.scaled(course.means[place] or 0.0) for course, place in places]
            mean, deviation = spread(values)
            late = [course.simulated[place] for course, place in places if course.simulated is not None]
            rows.append(
                {
                    "method": entry.label,
                    "round": number,
                    "mean": mean,
                    "low": mean - deviation,
                    "high": mean + deviation,
                    "seeds": len(values),
                    "bytes": fmean(course.bytes[place] for course, place in places),
                    "seconds": fmean(course.seconds[place] for course, place in places),
                    **({"simulated seconds": fmean(late)} if len(late) == len(places) else {}),
                }
            )
    return rows


def costs(standings: Standings) -> Rows:
    """For each entry what it reached and what all participants sent and received for it, on average over seeds."""
    rows: Rows = []
    for entry in standings.rivals:
        summary = standings.summary(entry)
        mean, deviation = spread([standings.metric.scaled(score) for score in summary.scores])
        rows.append({"method": entry.label, "bytes": fmean(summary.total), "mean": mean, "deviation": deviation})
    best_first = sorted(rows, key=lambda row: (row["bytes"], -row["mean"] if standings.metric.higher else row["mean"]))
    top: float | None = None
    for row in best_first:
        row["efficient"] = top is None or standings.metric.better(row["mean"], top)
        top = row["mean"] if row["efficient"] else top
    return rows


def gains(standings: Standings, entry: Entry) -> Rows:
    """How much better each participant is off than alone, on average over seeds, whoever gains most first."""
    found: dict[str, list[float]] = {}
    for by_name in standings.gains(entry).values():
        for name, gain in by_name.items():
            found.setdefault(name, []).append(standings.metric.scaled(gain))
    holders = {holder.name: holder for trial in standings.of(entry).values() for holder in trial.holders}
    rows: Rows = []
    for name, values in found.items():
        mean, deviation = spread(values)
        holder = holders.get(name)
        model, samples = (holder.model, holder.samples) if holder is not None else ("", None)
        rows.append(
            {
                "participant": name,
                "model": model,
                "samples": samples,
                "gain": mean,
                "deviation": deviation,
                "side": "gains" if mean >= 0 else "loses",
            }
        )
    return sorted(rows, key=lambda row: (-row["gain"], row["participant"]))


def holdings(standings: Standings) -> Rows:
    """Who trained on how many samples of each label, in the first run that says so."""
    trial = next((trial for trial in standings.trials if any(holder.counts for holder in trial.holders)), None)
    if trial is None:
        return []
    return [
        {"participant": holder.name, "label": label, "samples": count}
        for holder in trial.holders
        for label, count in holder.counts.items()
    ]


def traffic(standings: Standings) -> Rows:
    """What one participant sent and received in one round at each exchange, on average over seeds."""
    rows: Rows = []
    for entry in standings.rivals:
        found: dict[tuple[str, str], list[float]] = {}
        for trial in standings.of(entry).values():
            played = max(1, len(trial.history.final.rows) * trial.history.rounds)
            for exchange, counts in trial.exchanges.items():
                for side in ("up", "down"):
                    found.setdefault((exchange, side), []).append(counts[f"bytes_{side}"] / played)
        rows += [
            {"method": entry.label, "exchange": exchange, "direction": SIDES[side], "bytes": fmean(values)}
            for (exchange, side), values in found.items()
        ]
    return rows


SIDES: Mapping[str, str] = {"up": "sent", "down": "received"}


def ranks(significance: Significance) -> Rows:
    """Each entry's mean rank over seeds, the best one first; none for fewer than four entries."""
    ranking = significance.ranking
    if ranking is None:
        return []
    ordered = sorted(ranking.ranks.items(), key=lambda pair: pair[1])
    return [{"method": name, "rank": rank, "place": place} for place, (name, rank) in enumerate(ordered)]


def crossed(standings: Standings, entry: Entry) -> Rows:
    """How well each participant's model does on each one's test data, on average over seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for trial in standings.of(entry).values():
        for owner, by_data in trial.cross.items():
            for data, metrics in by_data.items():
                if (value := metrics.get(standings.metric.name)) is not None:
                    found.setdefault((owner, data), []).append(standings.metric.scaled(value))
    return [{"model of": owner, "data of": data, "value": fmean(values)} for (owner, data), values in found.items()]
