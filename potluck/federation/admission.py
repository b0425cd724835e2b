"""Admission: what is checked of participants before anything is trained."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, Literal

import torch

from potluck.core.architecture import Architecture, Itself
from potluck.core.errors import DataError, RequirementsError, SettingsError
from potluck.core.history import SERVER
from potluck.core.inputs import alike, describe
from potluck.core.party import Storage
from potluck.core.samples import Samples, SharedData
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.ingestion.user_data import read_inputs, read_labelled
from potluck.learners.network import Network
from potluck.learners.traits import Traits

log = logging.getLogger(__name__)


class Admission:
    """Admits participants one after the other; each is inspected only then."""

    def __init__(self) -> None:
        self.participants: dict[str, Participant] = {}
        self._models: dict[Itself, str] = {}
        self._kinds: dict[Hashable, Participant] = {}
        self._networks: dict[Architecture, tuple[Architecture, Traits]] = {}

    def admit(self, participant: Participant, join: Callable[[Participant], Samples | None]) -> None:
        """Admits a participant.

        Args:
            participant: the participant.
            join: has it join the federation, and returns the samples it will be tested on.
        """
        if not isinstance(participant, Participant):
            raise SettingsError(
                f"participants holds {participant!r}; expected a Participant, e.g. Participant(name, model, data)."
            )
        name = participant.name
        if name in self.participants:
            raise SettingsError(f"Two participants are named {name!r}; names must differ.")
        self.participants[name] = participant
        test = join(participant)
        if participant.built and not participant.builds_its_model:
            owner = self._models.setdefault(Itself(participant.model), name)  # as its method has prepared it
            if owner != name:
                raise SettingsError(
                    f"{owner} and {name} bring the same model object, so training one would change the "
                    f"other; give each its own (copy.deepcopy)."
                )
        if participant.is_local and isinstance(network := participant.learner, Network):
            for each in (network, *(participant.models[model] for model in participant.specs)):
                self._look_at(each, participant)
            if test is not None:
                participant.plan.check_prediction(participant.data, name)
        for what, samples in (("validation", participant.validation), ("test", test)):
            if samples is not None and not alike(samples.kinds, participant.data.kinds):
                raise DataError(
                    f"The {what} data of {name} has inputs of {describe(samples.kinds)}, its training data of "
                    f"{describe(participant.data.kinds)}; expected the same. Convert them, or give it others "
                    f"(`{what}=`)."
                )
        if participant.is_local and "weight" in participant.data.columns and not participant.learner.takes_weights:
            log.warning(
                "%s: the fit of %s takes no sample_weight, so all its samples count the same",
                name,
                type(participant.model).__name__,
            )
        self._kinds.setdefault(_kind_of(participant), participant)

    def _look_at(self, network: Network, participant: Participant) -> None:
        """Inspects and probes a network, once for all of one architecture."""
        own = network.architecture
        if own not in self._networks:
            self._networks[own] = (own, network.probe(participant.data, participant.plan))
        network.share(*self._networks[own])

    def check_fit(self, method: Method, shown: SharedData | None, *, alone: bool = False) -> None:
        """Raises RequirementsError, with every reason, unless the method fits this federation.

        Args:
            method: the method.
            shown: the public data, if there are any.
            alone: whether the other participants are on other machines, so that what they must have in common cannot
                be checked here.
        """
        kind: Literal["nothing", "inputs", "labels"] = "nothing"
        if shown is not None:
            kind = "inputs" if shown.y is None else "labels"
        needs = replace(method.requires(), shared_labels=False) if alone else method.requires()
        inputs = None if shown is None else shown.inputs.kinds
        reasons = needs.unmet(list(self._kinds.values()), kind, inputs)  # what fits one of each kind fits all
        if reasons and (reasons := needs.unmet(list(self.participants.values()), kind, inputs)):
            raise RequirementsError(
                f"{type(method).__name__} does not fit this federation:"
                + "".join(f"\n- {reason}" for reason in reasons)
            )
        if SERVER in self.participants and (method.reported() or method.server_reports) and not alone:
            raise SettingsError(
                f"A participant is named {SERVER!r}, which rows of the server's models say; choose another name."
            )
        if needs.same_architecture:
            self._say_where_one_network_means_different_things()
        if needs.public != "nothing":
            for participant in self._kinds.values():
                _ = participant.public  # whatever one cannot read of it is reported now

    def _say_where_one_network_means_different_things(self) -> None:
        """Warns where whole networks are averaged and the same output means other values at some participants."""
        tasks = {name: person.task for name, person in self.participants.items() if person.is_local}
        first = next(iter(tasks), None)
        for name, task in tasks.items():
            if first is not None and (why := tasks[first].unlike(task)) is not None:
                log.warning("%s and %s %s", first, name, why)
                return


def admitted(
    participants: Iterable[Participant],
    seed: int,
    method: Method,
    shown: SharedData | None,
    tests: SharedData | None,
    storage: Storage | None,
) -> dict[str, Participant]:
    """All participants by name, joined and checked, one after the other, each in storage before the next one.

    Args:
        participants: who takes part.
        seed: the federation's.
        method: what they do, which must fit them.
        shown: the public data, if there are any.
        tests: what those are tested on who have no test data of their own, if there are any.
        storage: where participants are while others run, if not in memory.
    """
    admission = Admission()

    def join(participant: Participant) -> Samples | None:
        participant.join(seed, shown, method)
        return participant.own_test(tests) if method.uses_models else None  # a study of data tests nothing

    for participant in participants:
        admission.admit(participant, join)
        if storage is not None:
            storage.evict([participant])
    if not admission.participants:
        raise SettingsError("A federation needs at least one participant; got none.")
    admission.check_fit(method, shown)
    return admission.participants


def published(public: Any) -> SharedData | None:
    """Public data from ``x``, ``(x, y)``, a torch Dataset of pairs, or ``SharedData``."""
    if public is None or isinstance(public, SharedData):
        return public
    if isinstance(public, tuple | torch.utils.data.Dataset):
        data = read_labelled(public, "public data")
        return SharedData(data.inputs, data.y, columns=data.columns)
    return SharedData(read_inputs(public, "public data"))


def published_test(test: Any) -> SharedData | None:
    """Test data that all participants may be evaluated on."""
    if test is None:
        return None
    data = read_labelled(test, "test data")
    return SharedData(data.inputs, data.y, "test data", data.columns)


def _kind_of(participant: Participant) -> Hashable:
    """Participants of one kind all fit a method, or none does."""
    inputs = describe(participant.kinds), describe(participant.data.kinds)
    if not participant.is_local:
        return participant.task.kind, inputs
    learner = participant.learner
    model = learner.architecture if isinstance(learner, Network) else type(learner)
    named = str(participant.named_stages), str(participant.named_head)
    return model, participant.task.kind, participant.labelled, inputs, participant.plan.transform, named
