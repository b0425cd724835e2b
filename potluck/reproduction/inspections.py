"""What papers look at in networks when a run is over: how alike their features are, how they part, what they give away.

An item's ``inspect`` names these functions. Each takes a federation and returns numbers by name, which are measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

import torch
from torch import Tensor

from potluck.analysis import cka, reconstruct, separation
from potluck.core.errors import DataError
from potluck.core.model_view import ModelView
from potluck.core.randomness import generator
from potluck.federation.federation import Federation
from potluck.federation.participant import Participant

SAMPLES = 128
"""So many test samples are looked at, or all where there are fewer."""
IMAGES = 16
"""So many images are rebuilt: a batch of FedIN's."""


def similarity_of_stages(federation: Federation) -> dict[str, float]:
    """The CKA of each stage's features, the mean over pairs of architectures (FedIN, Figures 6 and 7)."""
    people = one_of_each(federation)
    inputs = shown_inputs(federation, people[0])
    stages = [name for name, _ in people[0].model.named_children() if name.startswith("layer")]
    found = [features(person, inputs, stages) for person in people]
    return {
        f"CKA stage {number}": fmean(cka(one[stage], other[stage]) for one, other in combinations(found, 2))
        for number, stage in enumerate(stages, start=1)
    }


def separation_of_architectures(federation: Federation) -> dict[str, float]:
    """The silhouette of architectures in a t-SNE of what their inner layers put out (FedIN, Figure 3)."""
    people = one_of_each(federation)
    return {"silhouette": _separation(people, shown_inputs(federation, people[0]))}


def separation_in_a_class(federation: Federation) -> dict[str, float]:
    """The same for one class and three architectures, the first, the second and the last (FedIN, Figure 8)."""
    people = one_of_each(federation)
    chosen = [people[place] for place in sorted({0, min(1, len(people) - 1), len(people) - 1})]
    return {"silhouette": _separation(chosen, shown_inputs(federation, people[0], label=0))}


def rebuilt_images(federation: Federation) -> dict[str, float]:
    """What the server rebuilds of one's images from the features that it sends (FedIN, Figures 4 and 10).

    Noise on features is that of the method. The error of each pixel is by the deviation of all of them: 0 is the image
    itself, and 1 what a grey one has.
    """
    person = next(iter(federation.participants.values()))
    images = inputs_of(person, person.data.x[:IMAGES])
    view, extractor = ModelView(person.model.eval()), person.stages.extractor
    with torch.no_grad():
        sent = view.part(extractor, images)
    level = float(getattr(federation.method, "noise", 0.0))
    draws = generator(federation.seed, person.name, "rebuilt images")
    noisy = sent + level * sent.std() * torch.randn(sent.shape, generator=draws, dtype=sent.dtype)
    found = reconstruct(lambda x: view.part(extractor, x), noisy, images.shape[1:], seed=federation.seed)
    error = (found.inputs - images).square().mean() / images.var()
    return {"reconstruction loss": found.losses[-1] / float(sent.var()), "image error": float(error)}


def one_of_each(federation: Federation) -> list[Participant]:
    """The first participant of every architecture."""
    found: dict[str, Participant] = {}
    for person in federation.participants.values():
        found.setdefault(person.network.architecture.digest, person)
    if len(found) < 2:
        raise DataError("All have the same architecture; expected two at least to compare.")
    return list(found.values())


def shown_inputs(federation: Federation, person: Participant, label: int | None = None) -> Tensor:
    """Some test inputs as networks read them: of all classes, or of one."""
    test = federation.test_of(person)
    if test is None:
        raise DataError(f"{person.name} has no test data to look at.")
    rows = torch.arange(len(test)) if label is None else torch.nonzero(test.y == label).flatten()
    return inputs_of(person, test.x[rows[:SAMPLES]])


def inputs_of(person: Participant, x: Tensor) -> Tensor:
    """Samples as a participant's network reads them."""
    read: Tensor = person.plan.inputs(x, person.network.dtype)
    return read


def features(person: Participant, inputs: Tensor, at: Sequence[str]) -> Mapping[str, Tensor]:
    """What some layers put out."""
    with torch.no_grad():
        _, taken = ModelView(person.model.eval()).taps(inputs, at)
    return taken


def _separation(people: Sequence[Participant], inputs: Tensor) -> float:
    parts = []
    for person in people:
        last = person.stages.intermediate[-1]
        parts.append(features(person, inputs, [last])[last].flatten(1))
    groups = [person.name for person in people for _ in range(len(inputs))]
    return separation(torch.cat(parts), groups)
