"""The model that a participant trains, made by its method of the one that it brought."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import nn

from potluck.core.model_view import copy_holding


def prepared(brought: Any, prepare: Callable[[Any], Any], *, is_own: bool) -> Any:
    """What a method makes of a model. Of one that was brought as an object, it makes it of a copy.

    What is frozen in such an object stays in its memory, so that many participants may bring one and hold it once;
    where a method trains it all the same, it gets memory of its own.

    Args:
        brought: the model.
        prepare: what the method does.
        is_own: whether the model was built for this federation alone, so that no copy is needed.
    """
    if is_own:
        return prepare(brought)
    if not isinstance(brought, nn.Module):
        return prepare(copy.deepcopy(brought))
    frozen = {name: p for name, p in brought.named_parameters() if not p.requires_grad}
    made = prepare(copy_holding(brought, frozen))
    held = {parameter.data_ptr() for parameter in frozen.values()}
    if isinstance(made, nn.Module):
        for parameter in made.parameters():
            if parameter.requires_grad and parameter.data_ptr() in held:
                parameter.data = parameter.data.clone()
    return made
