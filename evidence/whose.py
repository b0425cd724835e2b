"""Whose networks are measured where methods share weights, and the methods that keep what this takes."""

from __future__ import annotations

import copy

from torch import Tensor

import potluck
from evidence.experiment import Whose, everyone, kind
from potluck.core.labels import decode
from potluck.methods import FedAvg, FedIN, Local
from potluck.methods.weight_sharing import WeightSharing


def newest(federation: potluck.Federation) -> dict[str, potluck.Participant]:
    """The newest weights in one network of each architecture: what whoever fetches them now gets. Nobody is changed."""
    method = federation.method
    assert isinstance(method, WeightSharing)
    found: dict[str, potluck.Participant] = {}
    for name, person in federation.participants.items():
        if kind(name) not in found:
            found[kind(name)] = copied(person, kind(name), method.entries(federation.server, name))
    return found


def copied(person: potluck.Participant, name: str, weights: dict[str, Tensor]) -> potluck.Participant:
    """Somebody's network with other weights, to be measured."""
    network = copy.deepcopy(person.model)
    network.load_state_dict(weights)
    few = (person.data.x[:2], decode(person.data.y[:2], person.labels))
    return potluck.Participant(name, network, few, labels=person.labels)


def present(federation: potluck.Federation) -> dict[str, potluck.Participant]:
    """Everybody who took part in the round, as it is when the round is over."""
    now = federation.history.rounds
    return {name: person for name, person in federation.participants.items() if person.state["round"] == now}


class Noted(WeightSharing):
    """A method that also notes what each participant sends: its network as its own training left it."""

    def shared(self, me: potluck.Participant) -> dict[str, Tensor]:
        me.state["sent"] = super().shared(me)
        return dict(me.state["sent"])


class NotedFedAvg(FedAvg, Noted):
    """FedAvg, noted."""


class NotedFedIN(FedIN, Noted):
    """FedIN, noted."""


def trained(federation: potluck.Federation) -> dict[str, potluck.Participant]:
    """Everybody's own network, as it was when the round's training was over and before the mean replaced it."""
    return {name: copied(person, name, person.state["sent"]) for name, person in present(federation).items()}


class Parameters(WeightSharing):
    """A method whose messages carry parameters alone: BatchNorm's statistics stay with their participant."""

    def shared(self, me: potluck.Participant) -> dict[str, Tensor]:
        learned = dict(me.network.model.named_parameters())
        return {name: entry for name, entry in super().shared(me).items() if name in learned}


class ParametersFedAvg(FedAvg, Parameters):
    """FedAvg without BatchNorm's statistics."""


class ParametersFedIN(FedIN, Parameters):
    """FedIN without BatchNorm's statistics."""


def measured_for(method: potluck.Method) -> Whose:
    """Whose networks tell what a method reaches."""
    kinds: dict[type, Whose] = {Local: everyone, Noted: trained, Parameters: present}
    return next((whose for base, whose in kinds.items() if isinstance(method, base)), newest)
