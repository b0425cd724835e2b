"""MHAT (Hu et al., 2021): the server trains a model of its own to merge the participants' predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from torch.utils._pytree import tree_map

from potluck.core.input_changes import TransformKind
from potluck.core.inputs import Batch
from potluck.core.model_spec import Declared, ModelSpec
from potluck.core.model_view import ModelView
from potluck.core.objectives import TASK, Context, hard_and_soft
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.regression import Regression
from potluck.core.requests import Fit, Predict
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.federation.method import ServerSteps, exchange
from potluck.federation.server import Answers, Server, ServerModel
from potluck.methods.averaging import NoPlainMean
from potluck.methods.fd import FD, probabilities_schema, soft_labels_schema
from potluck.methods.server_training import ServerTraining


class MHAT(NoPlainMean, FD, ServerTraining):
    """Algorithms 1 to 3. The participant's half is FD's; the server's half trains an auxiliary model.

    Several labels and values are ours, as in ``FD``: the auxiliary model learns them by the same losses, values by the
    scale of those that the server received in the first round.

    The defaults are section 4.2's: E1 = 5, E3 = 1, E2 = 5, T = 5.

    Args:
        temperature: T, as in ``FD`` (eq. 2); by default 5.
        first_epochs: E1, epochs in the first round; by default 5, None for the plan's.
        epochs: E3, epochs in later rounds; by default 1, None for the plan's.
        distill_lr: the learning rate once there are soft labels; the paper's β = 0.5 for plain SGD. By default None,
            for the plan's.
        auxiliary: the server's model, from ``potluck.models``, as ``"package.module:callable"``, or a callable that
            makes one; it is trained further in every round. By default "mlp".
        server_plan: how the server trains it; by default SGD with a rate of 0.1 in batches of 32, for E2 = 5 epochs. A
            dict changes some of these settings.
    """

    first_epochs: int | None = Field(5, ge=0)
    epochs: int | None = Field(1, ge=0)
    auxiliary: ServerModel = "mlp"
    server_plan: Plan = Plan(optimizer="sgd", lr=0.1, epochs=5, batch_size=32)

    def server_models(self, server: Server) -> Declared:
        return {"auxiliary": ModelSpec(self.auxiliary, plan=self.server_plan)}

    @exchange(probabilities_schema, reply=soft_labels_schema)
    def probabilities(self, server: Server, answers: Answers) -> ServerSteps:
        """Algorithm 3: train on D ∪ every (X, Ȳ_k) (eq. 6), then answer with the trained model's soft labels."""
        public = server.public
        assert public is not None
        # By name: the order in which answers arrive must not decide which samples are in one batch.
        in_order = sorted(answers, key=lambda answer: answer[0])
        # X is the same in all of them: unless its batches change from step to step, samples name their rows of one X.
        plan, auxiliary = self.server_plan, server.models["auxiliary"]
        changing = plan.augment is not None or plan.kind_of_transform(public) is not TransformKind.EACH
        copied = changing or public.source is not None or public.reader is not None
        x = public.inputs() if copied else Samples({"row": torch.arange(len(public))})
        task = known_scale(server, [payload["probabilities"] for _, payload in in_order])
        sets = [x.with_targets(soft=task.taught(payload["probabilities"])) for _, payload in in_order]
        if public.labelled:
            known = task.taught(server.task.answers(public.y)) if isinstance(task, Regression) else public.y
            sets.append(x.with_targets(y=known, soft=task.no_targets(len(public))))
        else:
            sets = [part.with_targets(y=task.unknown(len(part))) for part in sets]
        context = {"temperature": self.temperature, TASK: task.encoded}
        yield Fit(
            hard_and_soft if copied else looked_up,
            on=Samples.concat(sets),
            context=context if copied else {**context, "public": plan.inputs(public.x, auxiliary.dtype)},
            plan=plan,
            model="auxiliary",
        )
        logits = yield Predict(public, logits=True, model="auxiliary")
        return Payload({"probabilities": task.soft(logits, self.temperature).float()})


def known_scale(server: Server, tables: Sequence[Tensor]) -> Task:
    """The server's task; where it has no scale for values, by that of the first ones it received."""
    task = server.task
    if not isinstance(task, Regression) or task.scale != "standard":
        return task
    if "scale" not in server.state:
        server.state["scale"] = [list(part) for part in task.fitted(torch.cat(list(tables)).numpy(), server.name).found]
    return replace(task, found=tuple(map(tuple, server.state["scale"])))


def looked_up(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """``hard_and_soft`` of samples that name rows of the public data."""
    x = tree_map(lambda column: column[batch["row"]], context["public"])
    return hard_and_soft(model, {**batch, "x": x}, context)
