"""Robust merges: what stands in for a mean where some of those who send may lie.

Pure functions over stacked values, one row for each sender, and the settings that name them. A value that a sender does
not hold is NaN. Rules by coordinate take each position by itself; rules by distance give every sender a share, from
nothing but how far the senders are from each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from potluck.core.settings import Settings, by_name
from potluck.methods.spooled_merge import CoordinateMerge, DistanceMerge, SpooledMerge

STEPS = 1000
"""After how many steps the geometric median is taken as it is."""
STANDS = 1e-12
"""How little shares may change in a step of a geometric median that stands."""


def median(values: Tensor) -> Tensor:
    """The median of each position over those who hold it; of an even number the mean of the middle two."""
    ordered, count = _ordered(values)
    low, high = ((count - 1) // 2).clamp(min=0), (count // 2).clamp(max=len(values) - 1)
    return (ordered.gather(0, low[None])[0] + ordered.gather(0, high[None])[0]) / 2


def trimmed_mean(values: Tensor, share: float) -> Tensor:
    """The mean of each position without a share of its holders, rounded down, at each end."""
    ordered, count = _ordered(values)
    cut = (share * count + 1e-9).floor()  # 0.29 · 100 is a little less than 29 in floats
    ranks = torch.arange(len(values), dtype=torch.float64).view(-1, *[1] * (values.ndim - 1))
    kept = (ranks >= cut) & (ranks < count - cut)
    return torch.where(kept, ordered, 0.0).sum(dim=0) / kept.sum(dim=0)


def _ordered(values: Tensor) -> tuple[Tensor, Tensor]:
    """Each position's values in order, those that are not there last, and how many there are."""
    return values.sort(dim=0).values, (~values.isnan()).sum(dim=0)


def krum_scores(squared: Tensor, liars: int, unsquared: bool = False) -> Tensor:
    """Each sender's sum of (squared) distances to the n − f − 2 others that are nearest to it.

    Args:
        squared: the squared distance between any two of n senders.
        liars: f, how many may lie. Where n is not above 2f + 2, it is the most for which n is.
        unsquared: whether distances are summed as they are, as FederatedScope does.
    """
    count = len(squared)
    others = (squared.sqrt() if unsquared else squared).sort(dim=1).values[:, 1:]
    return others[:, : max(1, count - min(liars, max(0, (count - 3) // 2)) - 2)].sum(dim=1)


def geometric_median(squared: Tensor, weights: Tensor, smoothing: float, steps: int | None) -> Tensor:
    """The shares of n points in the point whose weighted distances to them sum to the least (Weiszfeld, smoothed).

    Args:
        squared: the squared distance between any two of the points.
        weights: how much each counts.
        smoothing: ν, below which a distance counts as ν.
        steps: how many steps are taken from the mean; None until it stands.
    """
    shares = weights / weights.sum()
    for _ in range(STEPS if steps is None else steps):
        across = squared @ shares  # ‖z − x_i‖² of z = Σ a_j x_j with Σ a_j = 1 is (Da)_i − ½ aᵀDa
        apart = (across - shares @ across / 2).clamp(min=0).sqrt()
        pull = weights / apart.clamp(min=smoothing)
        before, shares = shares, pull / pull.sum()
        if bool((shares - before).abs().max() < STANDS):
            break
    return shares


class Rule(Settings):
    """What all robust merges have in common.

    Args:
        name: the rule's name, as a file says it.
    """

    name: str

    @property
    def fewest(self) -> int:
        """How many must hold a value so that the rule protects anybody."""
        return 3

    def merge(self, old: Mapping[str, Tensor]) -> SpooledMerge | None:
        """What merges by the rule; None where a mean does, of what is sent or of what is left of it."""
        return None


class ByCoordinate(Rule):
    """A rule that merges each position by itself."""

    def merge(self, old: Mapping[str, Tensor]) -> SpooledMerge:
        return CoordinateMerge(old, self.merged)

    def merged(self, values: Tensor) -> Tensor:
        """One value for each position, of stacked values in float64."""
        raise NotImplementedError


class ByDistance(Rule):
    """A rule that says how much of each sender's values is in the result: of all positions that the same hold."""

    def merge(self, old: Mapping[str, Tensor]) -> SpooledMerge:
        return DistanceMerge(old, self.shares)

    def shares(self, squared: Tensor, weights: Tensor) -> Tensor:
        """Each sender's share, in all 1, by the squared distances between any two of them, and their weights."""
        raise NotImplementedError


class Median(ByCoordinate):
    """The median of each position (Yin et al., 2018). All count the same."""

    name: Literal["median"] = "median"

    def merged(self, values: Tensor) -> Tensor:
        return median(values)


class Trimmed(ByCoordinate):
    """The trimmed mean of each position (Yin et al., 2018). All count the same.

    Args:
        share: β, of how many at each end values are dropped, rounded down; by default 0.2.
    """

    name: Literal["trimmed"] = "trimmed"
    share: float = Field(0.2, gt=0, lt=0.5)

    @property
    def fewest(self) -> int:
        return next(count for count in range(3, 10**6) if self.share * count + 1e-9 >= 1)

    def merged(self, values: Tensor) -> Tensor:
        return trimmed_mean(values, self.share)


class NearestToMost(ByDistance):
    """What Krum and Multi-Krum have in common.

    Args:
        liars: f, how many may lie; n must be above 2f + 2; by default 1.
        unsquared: whether distances are summed as they are, not squared; by default False.
    """

    liars: int = Field(1, ge=0)
    unsquared: bool = False

    @property
    def fewest(self) -> int:
        return 2 * self.liars + 3

    def best(self, squared: Tensor, weights: Tensor, count: int) -> Tensor:
        """The shares of those with the lowest scores, by weight. Of fewer than three nobody can be told apart."""
        chosen = torch.zeros_like(weights)
        if len(squared) < 3:
            chosen[:] = weights
        else:
            rows = krum_scores(squared, self.liars, self.unsquared).argsort(stable=True)[:count]
            chosen[rows] = weights[rows]
        return chosen / chosen.sum()


class Krum(NearestToMost):
    """The values of that one who is nearest to most others (Blanchard et al., 2017). All count the same.

    Args:
        liars: as in ``NearestToMost``; by default 1.
        unsquared: as in ``NearestToMost``; by default False.
    """

    name: Literal["krum"] = "krum"

    def shares(self, squared: Tensor, weights: Tensor) -> Tensor:
        return self.best(squared, torch.ones_like(weights), 1)


class MultiKrum(NearestToMost):
    """The mean of those who are nearest to most others (Blanchard et al., 2017).

    Args:
        liars: as in ``NearestToMost``; by default 1.
        unsquared: as in ``NearestToMost``; by default False.
        keep: m, of how many the mean is; by default None, for n − f.
        weighted: whether they count by their weights, as in Flower; by default False.
    """

    name: Literal["multikrum"] = "multikrum"
    keep: int | None = Field(None, ge=1)
    weighted: bool = False

    def shares(self, squared: Tensor, weights: Tensor) -> Tensor:
        count = max(1, len(squared) - self.liars) if self.keep is None else self.keep
        return self.best(squared, weights if self.weighted else torch.ones_like(weights), count)


class GeometricMedian(ByDistance):
    """The point nearest to all (RFA, Pillutla et al., 2022). Participants count by their weights.

    Args:
        smoothing: ν, below which a distance counts as ν; by default 1e-6.
        steps: how many steps are taken from the mean; RFA takes 3; by default None, until it stands.
    """

    name: Literal["geometric-median"] = "geometric-median"
    smoothing: float = Field(1e-6, gt=0)
    steps: int | None = Field(None, ge=1)

    def shares(self, squared: Tensor, weights: Tensor) -> Tensor:
        return geometric_median(squared, weights, self.smoothing, self.steps)


class NormBound(Rule):
    """The weighted mean of updates that are shortened where they are too long (Sun et al., 2019).

    Args:
        most: M, how long an update may be; by default None, for as long as the median of earlier rounds, in the first
            round as the weights that all start from.
    """

    name: Literal["norm-bound"] = "norm-bound"
    most: float | None = Field(None, gt=0)

    @property
    def fewest(self) -> int:
        return 2


RULES: Mapping[str, type[Rule]] = {
    "median": Median,
    "trimmed": Trimmed,
    "krum": Krum,
    "multikrum": MultiKrum,
    "geometric-median": GeometricMedian,
    "norm-bound": NormBound,
}


def _named(given: Any) -> Any:
    return by_name(given, "robust", "robust merge", RULES)


def _none(given: Any) -> Any:
    if given is not None:
        raise ValueError(f"robust = {given!r}; its server's half is no plain mean, for which there are such rules.")
    return given


Robust = Annotated[Median | Trimmed | Krum | MultiKrum | GeometricMedian | NormBound | None, BeforeValidator(_named)]
"""A method's setting: what stands in for the mean; None for the mean itself."""

NoMean = Annotated[None, BeforeValidator(_none)]
"""The same setting of methods that take no mean."""
