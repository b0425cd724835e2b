"""A participant's way of answering as a torch module: what `Method.predict` asks of models, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from potluck.core.errors import ModelError
from potluck.core.inputs import nested
from potluck.core.job import Job
from potluck.core.model_spec import OWN
from potluck.core.model_view import ModelView
from potluck.core.party import Party
from potluck.core.requests import Predict, Reading, Request
from potluck.core.samples import Samples
from potluck.engines.base import Answering
from potluck.learners.network import Network

Read = Callable[[Reading, Job], Any]
"""What answers a reading."""


def networks_of(me: Party, answering: Answering, inputs: Samples) -> dict[str, nn.Module]:
    """The networks that a participant reads to answer inputs, by name: found out by having it answer these.

    None where it is no network that answers, but an estimator, whose predictions are the answers as they are.
    Raises ModelError where they are not: then they would have to be exported together.
    """
    asked: list[tuple[Reading, Job, Any]] = []

    def read(reading: Reading, job: Job) -> Any:
        asked.append((reading, job, job.answer(torch.device("cpu"))))
        return asked[-1][2]

    found = answer(me, answering, inputs, read)
    networks = {reading.model or OWN: job.learner.model for reading, job, _ in asked if job.learner.shows_layers}
    if all(job.learner.shows_layers for _, job, _ in asked):
        return networks
    ((reading, _, answered), *more) = asked
    if more or type(reading) is not Predict or reading.on is not inputs or found is not answered:
        raise ModelError(
            f"{me.name}: its method answers with more than what its model predicts, and the model is no torch module; "
            f"expected one that is, to export both together."
        )
    return {}


def answer(me: Party, answering: Answering, inputs: Samples, read: Read) -> Any:
    """Runs a participant's way of answering, whose readings are answered by ``read``; returns what it answers."""
    half, step = answering(me, inputs), None
    while True:
        try:
            request: Request = half.send(step)
        except StopIteration as stop:
            if stop.value is None:
                raise ModelError(f"{me.name} has nothing to answer with yet; run the federation first.") from None
            return stop.value
        if not isinstance(request, Reading):
            raise ModelError(f"{me.name}: its method answers with {type(request).__name__}; expected readings alone.")
        job = request.addressed(me, 0, keep_optimizer=False)
        assert isinstance(job, Job)
        step = read(job.reading, job)


class AnsweringModule(nn.Module):
    """Answers inputs as a participant's method does, for ``torch.export``: its readings are computed on the spot.

    Args:
        me: the participant.
        answering: its way of answering.
        networks: the networks that it reads, by name.
        x: some inputs, as they are stored: it is called with others like them.
    """

    def __init__(self, me: Party, answering: Answering, networks: Mapping[str, nn.Module], x: Any) -> None:
        super().__init__()
        self._me, self._answering, self._like = me, answering, x
        self.networks = nn.ModuleDict({name: network.cpu() for name, network in networks.items()})
        self.eval()
        self.forward = _with_names(input_names(x), self._answer)

    def _answer(self, inputs: Mapping[str, Tensor]) -> Any:
        """The answers to a batch of inputs, as they are stored."""
        like, parts = self._like, tuple(inputs.values())
        x = dict(inputs) if isinstance(like, Mapping) else parts if isinstance(like, tuple) else parts[0]
        with KnownValues():
            return answer(self._me, self._answering, Samples.of(x), self._read)

    def _read(self, reading: Reading, job: Job) -> Any:
        assert isinstance(job.learner, Network)
        x = nested(job.samples.input_columns)["x"]
        x = x if reading.of_features else job.plan.inputs(x, job.learner.dtype)
        return reading.collect([reading.compute(ModelView(job.learner.model), x)])


def input_names(x: Any) -> list[str]:
    """What the inputs of a module are called."""
    if isinstance(x, Mapping):
        return list(x)
    return [f"x{place}" for place in range(len(x))] if isinstance(x, tuple) else ["x"]


def _with_names(names: Sequence[str], function: Callable[[Mapping[str, Tensor]], Any]) -> Callable[..., Any]:
    """A function of arguments by these names, as ``torch.export`` looks for them in a signature."""
    signature = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(signature.bind(*args, **kwargs).arguments)

    forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward


class KnownValues(TorchFunctionMode):
    """Inside, what is computed of tensors that are known while others are traced is computed at once.

    So a method may ask its state something, such as which prototypes there are, and go on as the state says.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        tensors = list(_tensors((args, given)))
        if tensors and all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors):
            with _disable_current_modes():
                return func(*args, **given)
        return func(*args, **given)


def _tensors(values: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))
