"""CoFED on CIFAR-100's superclasses with CIFAR-10 as the public set (section 5.2).

57 participants where the paper has 100: this is how many can have 50 images of each of their 6 to 8 superclasses when
there are 1,000 training images of each. Everyone has a CNN of its own and chooses its plan on validation data.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import potluck
from evidence.experiment import Data, Maker, Setup, run
from potluck.methods import CoFED, Local
from potluck.models import random_cnn

PLANS = potluck.grid(potluck.Plan(epochs=30, batch_size=50), lr=[3e-4, 1e-3, 3e-3])
"""What everyone chooses from; batches of 50 are the paper's."""
UPDATE_EPOCHS = 5
"""Over own and received samples, in batches of 1,000 (the paper's). The paper does not say how many; not tuned."""


def table(
    data: Data,
    seed: int,
    method: potluck.Method,
    subclasses: tuple[int, int] | None,
    participants: int = 57,
    samples_per_class: int = 50,
    rounds: int = 1,
    plans: Any = PLANS,
) -> Setup:
    """``subclasses``: from how many of a superclass's five subclasses one's images come; None for all."""
    cifar, public = data["cifar100"], data["cifar10"]
    split = potluck.data.superclasses(
        cifar.y, cifar.fine, participants, seed, samples_per_class=samples_per_class, subclasses=subclasses
    )
    people = []
    for i, (rows, labels) in enumerate(zip(split.indices, split.labels, strict=True)):
        person = potluck.Participant(
            f"p{i:02d}",
            partial(random_cnn, seed=1000 * seed + i),
            (cifar.x[rows], cifar.y[rows]),
            labels=labels,
            validation=0.2,
        )
        person.plan = potluck.choose_plan(person, plans, seed=seed)
        people.append(person)
    federation = potluck.Federation(people, method, public=public.x, seed=seed)
    about = {
        "public": len(public.x),
        "private": [len(person.data) for person in people],
        "rates": [person.plan.lr for person in people],
    }
    return Setup(federation, rounds, (cifar.x_test, cifar.y_test), about=about, saving=None)


METHODS: dict[str, dict[str, Any]] = {
    "local": {"method": Local()},
    "local-longer": {"method": Local(), "rounds": 2},
    "cofed": {"method": CoFED(alpha=0.3, update_epochs=UPDATE_EPOCHS)},
    "cofed-margin": {"method": CoFED(alpha=0.3, margin=0.3, update_epochs=UPDATE_EPOCHS)},
}
SETTINGS: dict[str, Maker] = {
    f"{kind}-{name}": partial(table, subclasses=subclasses, **method)
    for kind, subclasses in {"iid": None, "non-iid": (1, 2)}.items()
    for name, method in METHODS.items()
}

if __name__ == "__main__":
    run("cofed_cifar", SETTINGS)
