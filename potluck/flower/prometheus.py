"""How federations stand, in Prometheus's format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from potluck.flower.status import ParticipantState, RunState, Status

CONTENT_TYPE = CONTENT_TYPE_LATEST


def exposition(statuses: Iterable[Status]) -> bytes:
    """What Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(statuses))
    return generate_latest(registry)


class StatusCollector(Collector):
    """Statuses as metrics. Of states each that may be is a series, which is 1 for the one that is.

    Args:
        statuses: how each federation stands.
    """

    def __init__(self, statuses: Iterable[Status]) -> None:
        self._statuses = list(statuses)

    def collect(self) -> Iterator[Any]:
        """Families of metrics, each with its labels."""
        state = _gauge("run_state", "1 for the state in which the run is.", "state")
        round = _gauge("round", "How many rounds are over.")
        rounds = _gauge("rounds", "How many rounds there are in all.")
        updated = _gauge("updated_timestamp_seconds", "When the run last gave a sign of life.")
        left = _gauge("left_seconds", "About how long the rest takes.")
        score = _gauge("score", "Mean of the first metric in the last round.", "metric")
        score_of = _gauge("score_participants", "Of how many participants the score is the mean.")
        sites = _gauge("participant_state", "1 for the state in which the participant is.", "participant", "state")
        since = _gauge("participant_since_timestamp_seconds", "Since when it is in that state.", "participant")
        last = _gauge("participant_round", "The last round in which it took part.", "participant")
        up = _counter("received_bytes", "What a participant has sent to the server.", "participant")
        down = _counter("sent_bytes", "What the server has sent to a participant.", "participant")
        for each in self._statuses:
            study = each.study
            for name in get_args(RunState):
                state.add_metric([study, name], float(name == each.state))
            round.add_metric([study], each.round)
            rounds.add_metric([study], each.rounds)
            updated.add_metric([study], each.updated)
            score_of.add_metric([study], each.score_of)
            if each.seconds_left is not None:
                left.add_metric([study], each.seconds_left)
            if each.metric is not None and each.score is not None:
                score.add_metric([study, each.metric], each.score)
            for site in each.participants:
                for name in get_args(ParticipantState):
                    sites.add_metric([study, site.name, name], float(name == site.state))
                since.add_metric([study, site.name], site.since)
                up.add_metric([study, site.name], site.bytes_up)
                down.add_metric([study, site.name], site.bytes_down)
                if site.round is not None:
                    last.add_metric([study, site.name], site.round)
        yield from (state, round, rounds, updated, left, score, score_of, sites, since, last, up, down)


def _gauge(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"potluck_{name}", about, labels=["study", *labels])


def _counter(name: str, about: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"potluck_{name}", about, labels=["study", *labels])
