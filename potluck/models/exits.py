"""Networks with early exits (ScaleFL): a classifier after several groups of layers, each an answer of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from potluck.core.errors import SettingsError
from potluck.models.resnet import body, start
from potluck.models.stem import Stem


class ExitNetwork(nn.Module):
    """Steps in a row, with exits after some of them. It answers by its last exit; a Tap reads the others.

    Args:
        steps: the steps by name, in order.
        exits: step → the classifier after it; one of them after the last step.
    """

    def __init__(self, steps: Mapping[str, nn.Module], exits: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, step in steps.items():
            self.add_module(name, step)
        self.exits = nn.ModuleDict(dict(exits))
        self._steps = tuple(steps)

    def forward(self, x: Tensor) -> Tensor:
        answer = x
        for name in self._steps:
            x = self._modules[name](x)  # type: ignore[misc]
            if name in self.exits:
                answer = self.exits[name](x)
        return answer

    @property
    def exit_names(self) -> list[str]:
        """The paths of the exits, the earliest first."""
        return [f"exits.{name}" for name in self.exits]


def exit_resnet(
    depth: int,
    input_shape: Sequence[int],
    classes: int,
    exits: int = 4,
    stem: Stem = "standard",
    width: int = 64,
    rate: float | str = 1.0,
) -> ExitNetwork:
    """A ResNet with an exit after each of its groups of blocks, as far as it goes, as ScaleFL makes them.

    Args:
        depth: 10, 14, 18, 22, 26, 34, 50, 101 or 152: that of the whole network.
        input_shape: channels, height and width of an image.
        classes: how many logits each exit puts out.
        exits: how many of the four groups it has; by default 4, for the whole network.
        stem: "standard" (the default) or "small", as in ``resnet``.
        width: how many filters the first group of blocks has; by default 64.
        rate: the share of all filters that it has, rounded up, or HeteroFL's level "a" to "e"; by default 1.
    """
    if isinstance(exits, bool) or not isinstance(exits, int) or not 1 <= exits <= 4:
        raise SettingsError(f"exits = {exits!r}; expected how many of the four groups of blocks it has: 1 to 4.")
    steps, features = body(depth, input_shape, stem, width, rate)
    groups = [f"layer{number}" for number in range(1, exits + 1)]
    beyond = [f"layer{number}" for number in range(exits + 1, 5)]
    answers = {
        group: nn.Sequential(
            OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(count, classes))
        )
        for group, count in zip(groups, features, strict=False)
    }
    network = ExitNetwork({name: step for name, step in steps.items() if name not in beyond}, answers)
    start(network)
    return network
