"""ScaleFL (Ilhan, Su and Liu, 2023): networks split in width and depth, whose early exits learn from the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from potluck.core.errors import RequirementsError
from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.requests import Fit
from potluck.federation.method import Needs
from potluck.federation.participant import Participant
from potluck.methods.distillation import kl
from potluck.methods.own_loss import own_loss
from potluck.methods.width_scaling import WidthScaling, occurring


def over_exits(losses: Sequence[Tensor]) -> Tensor:
    """Σ_j j·L_j / (E(E + 1)/2): later exits count more."""
    exits = len(losses)
    return sum(j * loss for j, loss in enumerate(losses, 1)) / (exits * (exits + 1) / 2)  # type: ignore[return-value]


def exit_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Section 3.2: each exit learns the labels, and all but the last learn from the last, by γ·T²·KL."""
    _, taken = model.taps(batch["x"], at=context["exits"])
    answers = [taken[name] * context["owned"] for name in context["exits"]]
    losses = [own_loss(answer, batch, context) for answer in answers]
    if context["gamma"]:
        distance = _kl_of_the_code if context["variant"] == "code" else kl
        share, temperature = context["gamma"] * context["temperature"] ** 2, context["temperature"]
        losses[:-1] = [
            loss + share * distance(answers[-1], answer, temperature).mean()
            for loss, answer in zip(losses, answers[:-1], strict=False)
        ]
    return over_exits(losses)


def _kl_of_the_code(target: Tensor, logits: Tensor, temperature: float) -> Tensor:
    """KL divided by the number of classes; it moves the target, too."""
    fixed, learning = (target / temperature).softmax(dim=-1), (logits / temperature).log_softmax(dim=-1)
    return F.kl_div(learning, fixed, reduction="none").mean(dim=-1)


class ScaleFL(WidthScaling):
    """Sections 3.1 to 3.3: a participant has the first channels of the first layers, up to an exit.

    A participant brings a network that ends at one of the exits, as narrow as it likes, e.g.
    ``exit_resnet18(exits=2, rate=0.7)``. It answers by its last exit. Each position is averaged over those who have it.

    The authors' code divides KL by the number of classes, lets it move the last exit, too, distils only after a quarter
    of the rounds (``distil_from``), and its γ is 0 unless it is set: 0.05 for texts.

    Args:
        gamma: γ, the weight of learning from the last exit; by default 0.05.
        temperature: T, by which logits are divided there; by default 3.
        distil_from: the first round in which exits learn from the last; by default 1.
        variant: which KL, the "paper"'s (the default) or the "code"'s.
        exits: the name of the layer whose parts are the exits, the earliest first; by default "exits".
        weighting: "uniform" (the default) or "samples".
        batchnorm: as in ``HeteroFL``; by default "average".
        masked_classes: as in ``HeteroFL``, for every exit; by default False, since the paper does not do it.
        model: as in ``HeteroFL``; by default None.
    """

    needs = Needs(torch_module=True)

    gamma: float = Field(0.05, ge=0)
    temperature: float = Field(3.0, gt=0)
    distil_from: int = Field(1, ge=1)
    variant: Literal["paper", "code"] = "paper"
    exits: str = "exits"
    masked_classes: bool = False

    def heads(self, me: Participant) -> tuple[str, ...]:
        """The exits, each of which answers."""
        found = dict(me.model.named_modules()).get(self.exits)
        names = () if found is None else tuple(f"{self.exits}.{name}" for name, _ in found.named_children())
        if not names:
            raise RequirementsError(
                f"{me.name}: {type(me.model).__name__} has no early exits in {self.exits!r}; expected a network like "
                f"potluck.models.exit_resnet18, or the name of the layer that holds them as `exits`."
            )
        return names

    def training(self, me: Participant) -> Fit:
        owned = occurring(me)
        context = {
            "exits": list(self.heads(me)),
            "gamma": self.gamma if me.round >= self.distil_from else 0.0,
            "temperature": self.temperature,
            "variant": self.variant,
            "owned": owned if self.masked_classes else owned | True,
        }
        return Fit(exit_loss, context=context)
