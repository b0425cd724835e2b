"""DraftFed (Liao et al., "A Draft-based Personalized Federated Learning Approach"): learn from others' feature maps.

Networks may be ResNets, DenseNets or plain CNNs, of any depth and width, in one federation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from potluck.core.errors import ModelError
from potluck.core.inputs import Batch
from potluck.core.labels import LabelsFact, differing
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.payload import LazyReplies, Payload
from potluck.core.randomness import generator
from potluck.core.requests import Exchange, Fit, Request, Tap
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.agreement import agreed
from potluck.federation.method import Leaving, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import nothing
from potluck.federation.server import Answers, Server
from potluck.learners.structure import convolutions, draft_point
from potluck.methods.averaging import Merger, Merging
from potluck.methods.feature_alignment import ShapesSchema, aligned, maps
from potluck.methods.label_sharing import USUAL
from potluck.methods.windows import Part

LOGITS, WHOLE = "logits", ""
"""The last draft's name, and the path at which a network's own output is tapped."""
LONGEST = 2**16
"""The greatest length that a draft may have in any dimension."""

Depth = Annotated[int, Field(ge=1, le=2**16)]
"""How many convolutions a network has."""

NoLabels = Annotated[list[str], Field(max_length=0)]
"""What stands for a label space where none is compared."""


class DraftFed(Merging):
    """Algorithm 1: send drafts of the common inputs, learn the mean of all drafts, then learn one's own data.

    A participant has three drafts (eq. 2): the outputs of its first convolution, of its last one and of the whole
    network, in evaluation mode; where a BatchNorm reads only that convolution, the output of the BatchNorm. The common
    inputs are some of the public ones, drawn once; labels on them are never used, and they are not augmented.

    Args:
        lambda1: weight of the loss on the first convolution's draft (eq. 3); by default 1. With 0 the draft is left
            out, and what no loss uses is not sent.
        lambda2: the same for the last convolution's draft; by default 1.
        lambda3: the same for the logits; by default 1.
        samples: how many public inputs the drafts are of; by default 512.
        draft_epochs: epochs of learning the drafts; by default None, for the plan's.
        draft_batch_size: batch size of learning the drafts; by default None, for the plan's.
        draft_lr: learning rate of learning the drafts; by default None, for the plan's.
        pad_norm: a channel's mean is over all contributors ("n", eq. 8, the default) or those that have it ("count").
        count_shortcuts: whether convolutions in shortcuts count in a network's depth; by default False.
        frozen_norms: whether BatchNorm keeps its statistics while drafts are learned; by default True.
    """

    needs = Needs(torch_module=True, convolutions=True, public="inputs", one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {
        "depths": "how many convolutions its network has, and its label space, once",
        "shapes": "the shapes of what some of its convolutions put out, once",
        "drafts": "what some of its convolutions, and the whole network, put out on some public samples",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {
        "depths": ("statistics",),
        "shapes": ("statistics",),
        "drafts": ("features", "predictions"),
    }

    lambda1: float = Field(1.0, ge=0)
    lambda2: float = Field(1.0, ge=0)
    lambda3: float = Field(1.0, ge=0)
    samples: int = Field(512, ge=1)
    draft_epochs: int | None = Field(None, ge=0)
    draft_batch_size: int | None = Field(None, ge=1)
    draft_lr: float | None = Field(None, gt=0)
    pad_norm: Literal["n", "count"] = "n"
    count_shortcuts: bool = False
    frozen_norms: bool = True

    def requires(self) -> Needs:
        """Only feature maps need convolutions, only logits one label space and labels at all."""
        inner, logits = self.lambda1 + self.lambda2 > 0, self.lambda3 > 0
        tasks = self.needs.tasks if logits else "any"
        return replace(self.needs, convolutions=inner, one_label_space=logits, tasks=tasks)

    @model_validator(mode="after")
    def _something_is_learned(self) -> DraftFed:
        if self.lambda1 + self.lambda2 + self.lambda3 == 0:
            raise ValueError("lambda1, lambda2 and lambda3 are all 0; expected one above 0. Learning alone is Local.")
        return self

    def join(self, me: Participant) -> Steps:
        assert me.public is not None
        layers = convolutions(me.model, self.count_shortcuts) if self.requires().convolutions else [WHOLE]
        facts = {"depth": len(layers), "labels": list(me.labels) if self.lambda3 else []}
        shown = (yield Exchange("depths", Payload(facts=facts))).facts["shown"]
        places = {conv(number): draft_place(me, layers[number - 1]) for number in shown}
        taken = yield Tap(me.public.take(torch.tensor([0])), at=list(places.values()))
        shapes = [maps(taken[place]).shape[1:] for place in places.values()]
        yield Exchange("shapes", Payload({"shapes": torch.tensor(shapes, dtype=torch.int32).reshape(-1, 3)}))
        me.state.update(depth=len(layers), places=places)
        return None

    def round(self, me: Participant) -> Steps:
        places: dict[str, str] = me.state["places"] | ({LOGITS: WHOLE} if self.lambda3 else {})
        targets = yield Exchange("drafts", Payload((yield from self._drafts(me, places))))
        weights = self._weights(me.state["depth"])
        plan = me.plan.replace(epochs=self.draft_epochs, batch_size=self.draft_batch_size, lr=self.draft_lr)
        yield Fit(
            draft_loss,
            on=self._shared(me).with_targets(targets.tensors),
            context={"weights": weights, "places": {name: places[name] for name in weights}},
            plan=plan.model_copy(update={"augment": None}),
            freeze_norm_stats=self.frozen_norms,
        )
        yield Fit()
        return None

    def _drafts(self, me: Participant, places: dict[str, str]) -> Generator[Request, Any, dict[str, Tensor]]:
        """The outputs of one's layers on the common inputs."""
        taken = yield Tap(self._shared(me), at=list(places.values()))
        return {name: maps(taken[place]).float() for name, place in places.items()}

    def _shared(self, me: Participant) -> Samples:
        """Section III-B: the same inputs for all, in every round."""
        assert me.public is not None
        rows = torch.randperm(len(me.public), generator=generator(me.seed, "shared inputs"))[: self.samples]
        return me.public.inputs().take(rows.sort().values)

    def _weights(self, depth: int) -> dict[str, float]:
        """Eq. 3: what one learns, and how much it counts. An only convolution is the first and the last."""
        weights = {conv(1): self.lambda1, LOGITS: self.lambda3}
        weights[conv(depth)] = weights.get(conv(depth), 0.0) + self.lambda2
        return {name: weight for name, weight in weights.items() if weight > 0}

    def _shown(self, depth: int, depths: Iterable[int]) -> list[int]:
        """Eq. 5: the convolutions whose drafts are sent: the first, and wherever a network no deeper has its last."""
        first = [1] if self.lambda1 else []
        lasts = [other for other in depths if other <= depth] if self.lambda2 else []
        return sorted({*first, *lasts})

    def shown_schema(self, me: Participant, sent: Schema) -> Schema:
        """Which of one's convolutions are shown."""
        depth = len(convolutions(me.model, self.count_shortcuts)) if self.requires().convolutions else 1
        return Schema(facts={"shown": Annotated[list[Annotated[int, Field(ge=1, le=depth)]], Field(max_length=depth)]})

    def _depths_schema(self) -> Schema:
        return Schema(facts={"depth": Depth, "labels": LabelsFact if self.lambda3 else NoLabels})

    @exchange(lambda self, server, sender: self._depths_schema(), phase="join", reply=shown_schema)
    def depths(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Replies to each which convolutions to send drafts of, once all depths are known."""
        facts_of = {sender: payload.facts for sender, payload in answers}
        labels = agreed(server, {sender: facts["labels"] for sender, facts in facts_of.items()}, differing)
        depths = {sender: facts["depth"] for sender, facts in facts_of.items() if facts["labels"] == labels}
        shown = {sender: self._shown(depth, depths.values()) for sender, depth in depths.items()}
        server.state.update(depths=depths, shown=shown, labels=labels)
        return LazyReplies(shown, lambda sender: Payload(facts={"shown": shown[sender]}))

    def _shapes_schema(self, server: Server, sender: str) -> Schema:
        shape = TensorSpec((len(server.state["shown"][sender]), 3), torch.int32, low=1, high=LONGEST)
        return ShapesSchema({"shapes": shape}, samples=self._rows(server), budget=server.budget)

    @exchange(_shapes_schema, phase="join", reply=nothing)
    def shapes(self, server: Server, answers: Answers) -> Payload:
        """Stores the shapes of all drafts that each will send."""
        shapes: dict[str, dict[str, list[int]]] = {}
        for sender, payload in answers:
            names = [conv(number) for number in server.state["shown"][sender]]
            shapes[sender] = dict(zip(names, payload["shapes"].tolist(), strict=True))
            if self.lambda3:
                shapes[sender][LOGITS] = [len(server.state["labels"])]
        server.state["shapes"] = shapes
        self.tell_few(Counter(name for own in shapes.values() for name in own))
        return Payload()

    @exchange(
        lambda self, server, sender: Schema(
            {name: TensorSpec((self._rows(server), *shape)) for name, shape in server.state["shapes"][sender].items()}
        ),
        reply=lambda self, me, sent: sent.only(self._weights(me.state["depth"])),
    )
    def drafts(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Each one's targets (eq. 4, 6 and 8): the mean over all who send that layer's draft, in its own shape.

        All have a first convolution; to a last one contribute those who are as deep or deeper. Participants that want
        the same layer in the same shape share one running mean.
        """
        wanted = {
            name: {draft: (draft, *shapes[draft]) for draft in self._weights(server.state["depths"][name])}
            for name, shapes in server.state["shapes"].items()
        }
        keys = {str(key): key for drafts in wanted.values() for key in drafts.values()}
        rows, pad = torch.zeros(self._rows(server)), self.pad_norm == "n"
        nothing = {k: rows.view(-1, *[1] * len(shape)).expand(-1, *shape) for k, (_, *shape) in keys.items()}
        merger = Merger(self, server, nothing, USUAL)
        for sender, payload in answers:
            sent = {k: key for k, key in keys.items() if key[0] in payload.tensors}
            merger.add(sender, [Part(k, aligned(payload[name], shape, pad)) for k, (name, *shape) in sent.items()])
        targets = merger.results()
        return LazyReplies(
            merger.senders,
            lambda sender: Payload({draft: targets[str(key)] for draft, key in wanted[sender].items()}),
        )

    def _rows(self, server: Server) -> int:
        return min(self.samples, server.public_size)


def conv(number: int) -> str:
    """The name of the draft of a network's number-th convolution."""
    return f"conv{number}"


def draft_place(me: Participant, convolution: str) -> str:
    """Section III-B: the layer of one's network that puts out a convolution's draft."""
    assert me.public is not None
    try:
        return draft_point(me.model, convolution, me.network.example(me.public, me.plan))
    except ModelError as error:
        raise ModelError(f"{me.name}: {error}") from error


def draft_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Eq. 3: the weighted sum of mean squared errors (feature maps) and the cross-entropy (logits) to the targets."""
    logits, taken = model.taps(batch["x"], at=[place for place in context["places"].values() if place != WHOLE])

    def loss(name: str) -> Tensor:
        target = batch[name].to(logits.dtype)
        if name == LOGITS:
            return F.cross_entropy(logits, target.softmax(dim=-1))
        return F.mse_loss(maps(taken[context["places"][name]]), target)

    return torch.stack([weight * loss(name) for name, weight in context["weights"].items()]).sum()
