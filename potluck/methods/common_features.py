"""A common model whose features, too, meet those of a participant's own model, by a linear map that stays at home."""

from __future__ import annotations

from functools import partial

from torch import nn

from potluck.core.model_spec import OWN, Declared, ModelSpec
from potluck.core.model_view import input_of
from potluck.federation.method import Needs
from potluck.federation.participant import Participant
from potluck.learners.structure import feature_width, find_head
from potluck.methods.common_model import COMMON, CommonModel

MAP = "map"
"""The name of the linear map among a participant's models."""


class CommonFeatures(CommonModel):
    """The feature is what goes into a head. A subclass says which map there is, in ``map_between``.

    Args:
        common: as in ``CommonModel``.
        common_plan: as in ``CommonModel``.
        aggregation: as in ``CommonModel``.
        weighting: as in ``WeightSharing``.
        batchnorm: as in ``WeightSharing``.
    """

    needs = Needs(torch_module=True, head=True, one_label_space=True)

    def map_between(self, me: Participant, common: int, own: int) -> nn.Linear:
        """The map, from the widths of the common model's feature and of one's own."""
        raise NotImplementedError

    def models(self, me: Participant) -> Declared:
        if not me.learner.shows_layers:
            return {}  # it is told that it cannot take part
        return {**super().models(me), MAP: ModelSpec(partial(self.built_map, me), same_start=False)}

    def built_map(self, me: Participant) -> nn.Module:
        """The map as a network whose only layer has a name."""
        return nn.Sequential(self.map_between(me, *self.widths(me)))

    def common_head(self, me: Participant) -> tuple[str, ...]:
        """The layers that are the common model's head."""
        network = me.models[COMMON]
        return find_head(network.model, network.example(me.data, me.plan)).head

    def feature_places(self, me: Participant) -> dict[str, str]:
        """Where the features of both models stand."""
        return {OWN: input_of(me.head[0]), COMMON: input_of(self.common_head(me)[0])}

    def widths(self, me: Participant) -> tuple[int, int]:
        """How wide the features are: the common model's, and one's own."""
        places, found = self.feature_places(me), {}
        for name in (COMMON, OWN):
            network = me.models[name]
            found[name] = feature_width(network.model, places[name], network.example(me.data, me.plan))
        return found[COMMON], found[OWN]
