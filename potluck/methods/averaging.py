"""Averaging what participants send: tensors that cover each other only in part, and updates of a usual size.

A contribution has a value, a weight, its position in the whole (a start or a tensor of positions for each dimension)
and perhaps a mask of what counts in it. At each position of the whole the result is Σ weight·value / Σ weight over the
contributions that cover it; a position that none covers keeps its old value.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, median_low

import torch
from pydantic import Field
from torch import Tensor

from potluck.federation.method import Method
from potluck.federation.server import Server
from potluck.methods.robust import NoMean, NormBound, Robust
from potluck.methods.windows import Part, WindowPlace, start_of, window

log = logging.getLogger(__name__)

BLOCK_VALUES = 2**19
"""How many values are worked on at a time: few enough to stay in a processor's cache between two steps."""

GROUP = 4
"""How many contributions to a large whole are merged at once: the sum then goes through memory once for all of them."""


class MaskedMean:
    """A running mean over one tensor: contributions are merged as they arrive, at most a few of them wait.

    Sums are in float64, so that the order of the contributions makes no difference that shows. Weights are stored as
    coarsely as the contributions allow: one for the whole, one for each row of a window that is the same in all rows,
    and one for each position only where there are masks or positions in other dimensions than the first.

    Args:
        shape: the shape of the whole.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)
        self._sum: Tensor | None = None
        self._whole = 0.0
        self._waiting: list[tuple[Tensor, float]] = []
        self._rows: dict[tuple[tuple[int, int], ...], Tensor] = {}
        self._each: Tensor | None = None

    def add(
        self, value: Tensor, weight: float = 1.0, at: WindowPlace | None = None, mask: Tensor | None = None
    ) -> None:
        """Merges one contribution.

        Args:
            value: the values.
            weight: how much they count; by default 1.
            at: the position in the whole; by default its beginning.
            mask: which of the values count; by default all.
        """
        if self._sum is None:
            self._sum = torch.zeros(self._shape, dtype=torch.float64)
        place = [0] * value.ndim if at is None else [start_of(position) for position in at]
        starts = [position for position in place if isinstance(position, int)]
        if mask is None and value.shape == self._shape and len(starts) == value.ndim:
            self._whole += weight
            self._waiting.append((value, weight))
            if value.numel() <= BLOCK_VALUES or len(self._waiting) == GROUP:
                self._merge_waiting(self._sum)
        elif mask is None and len(starts) >= value.ndim - isinstance(place[0], Tensor):
            key = tuple(zip(starts[-value.ndim + 1 :] if value.ndim > 1 else (), value.shape[1:], strict=True))
            if key not in self._rows:
                self._rows[key] = torch.zeros(self._shape[0], dtype=torch.float64)
            first = place[0]
            self._rows[key][slice(first, first + len(value)) if isinstance(first, int) else first] += weight
            _add_rows(_narrow(self._sum, key), value, weight, first)
            if len(self._rows) * self._shape[0] > self._sum.numel():
                self._forget_rows()
        else:
            self._add_each(self._sum, value, weight, place, mask)

    def _forget_rows(self) -> None:
        """Weights of many different windows, by row, would take more memory than those of each position."""
        if self._each is None:
            self._each = torch.zeros(self._shape, dtype=torch.float64)
        for key, weights in self._rows.items():
            _narrow(self._each, key).add_(weights.reshape(-1, *[1] * (len(self._shape) - 1)))
        self._rows = {}

    def _merge_waiting(self, total: Tensor) -> None:
        waiting, self._waiting = self._waiting, []
        if total.numel() <= BLOCK_VALUES:
            for value, weight in waiting:
                total.add_(value, alpha=weight)
            return
        pieces = (torch.split(flat.reshape(-1), BLOCK_VALUES) for flat in (total, *(value for value, _ in waiting)))
        for sums, *parts in zip(*pieces, strict=True):
            for part, (_, weight) in zip(parts, waiting, strict=True):
                sums.add_(part, alpha=weight)

    def _add_each(self, total: Tensor, value: Tensor, weight: float, at: WindowPlace, mask: Tensor | None) -> None:
        if self._each is None:
            self._each = torch.zeros(self._shape, dtype=torch.float64)
        place = window(at, value.shape)
        share = weight if mask is None else mask.to(torch.float64) * weight
        total[place] += value.to(torch.float64) * share
        self._each[place] += share

    def result(self, old: Tensor) -> Tensor:
        """The mean where anything was added, the old value elsewhere, in the old value's type."""
        found = old.clone(memory_format=torch.contiguous_format)
        if self._sum is None:
            return found
        self._merge_waiting(self._sum)
        # Rows matter only where weights go by row: else all is one long row of values, cut into even blocks.
        total, into = (self._sum, found) if self._rows else (self._sum.view(-1), found.view(-1))
        for rows in _blocks(total):
            weight = self._weights(rows)
            covered, mean = weight > 0, total[rows] / weight
            mean = mean if old.is_floating_point() else mean.round()
            into[rows] = mean if bool(covered.all()) else torch.where(covered, mean, into[rows])
        return found

    def _weights(self, rows: slice) -> Tensor:
        """The weights of some rows: in a shape that broadcasts to them, the smallest that tells all."""
        if not self._rows:
            each = torch.zeros(1, dtype=torch.float64) if self._each is None else self._each.view(-1)[rows]
            return each + self._whole
        by_row = {key: weights[rows].reshape(-1, *[1] * (len(self._shape) - 1)) for key, weights in self._rows.items()}
        whole = tuple((0, length) for length in self._shape[1:])
        if self._each is None and set(by_row) == {whole}:
            return by_row[whole] + self._whole
        painted = torch.zeros(rows.stop - rows.start, *self._shape[1:], dtype=torch.float64)
        if self._each is not None:
            painted += self._each[rows]
        for key, weights in by_row.items():
            _narrow(painted, key).add_(weights)
        return painted.add_(self._whole)


def _narrow(whole: Tensor, key: Sequence[tuple[int, int]]) -> Tensor:
    """The part of a tensor that lies in a window of all dimensions but the first."""
    for dimension, (start, length) in enumerate(key, start=1):
        if length != whole.shape[dimension]:
            whole = whole.narrow(dimension, start, length)
    return whole


def _add_rows(total: Tensor, value: Tensor, weight: float, at: int | Tensor) -> None:
    """Adds weight · value to some rows of a sum, from ``at`` on or at those positions, a block at a time."""
    for rows in _blocks(value):
        if isinstance(at, Tensor):
            total.index_add_(0, at[rows], value[rows].to(torch.float64), alpha=weight)
        else:
            total[at + rows.start : at + rows.stop].add_(value[rows], alpha=weight)


def _blocks(tensor: Tensor) -> Iterator[slice]:
    """Slices of the first dimension, each of about a block's size."""
    count = len(tensor)
    size = max(1, BLOCK_VALUES // max(1, math.prod(tensor.shape[1:])))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


class Merging(Method):
    """A method whose server's half takes a mean of what participants send.

    Args:
        robust: what stands in for the mean: "median", "trimmed", "krum", "multikrum", "geometric-median",
            "norm-bound", or a table of that ``name`` and its settings; by default None, for the mean.
        norm_limit: an update that is more than so many times as large as the median of earlier rounds is refused; by
            default 100, None for no limit.
    """

    robust: Robust = None
    norm_limit: float | None = Field(100.0, gt=1)

    def tell_few(self, holders: Mapping[str, int]) -> None:
        """Says where so few hold the same that the robust rule protects nobody."""
        needed = 0 if self.robust is None else self.robust.fewest
        few = sorted(f"{what} ({count})" for what, count in holders.items() if count < needed)
        if self.robust is not None and few:
            names = ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
            log.warning(
                "robust = %r needs %d who hold the same; it protects nobody of those who hold %s",
                *(self.robust.name, needed, names),
            )


class NoPlainMean(Merging):
    """A method whose server's half makes something else of what participants send: there is no rule to choose."""

    robust: NoMean = None
    norm_limit: None = None


class Merger:
    """Merges what participants send, by the method's rule: as answers come, or once all are there.

    Args:
        method: by which rule is merged.
        server: refuses those whose updates are too large, and remembers how large they are as a rule.
        old: the values that updates start from, by key; they stay where nobody sends any.
        first: what is taken for a usual update before there was a round to know it by; by default 1.
    """

    def __init__(self, method: Merging, server: Server, old: Mapping[str, Tensor], first: float = 1.0) -> None:
        self.senders: list[str] = []
        """Who is in it."""
        self._method, self._server, self._old, self._rule = method, server, old, method.robust
        self._waiting = None if self._rule is None else self._rule.merge(old)
        self._means: dict[str, MaskedMean] = {}
        self._held: dict[str, list[Part]] = {}
        """What layers of each have measured, in the first round of a mean: of which size that is, all together say."""
        self._sizes = UpdateSizes(server.state.setdefault("update sizes", {}), old, method.norm_limit, first)

    def add(self, sender: str, parts: Sequence[Part]) -> bool:
        """Merges what one participant sends, or has it refused for its size; says whether it is in."""
        found = self._sizes.of(parts)
        if (reason := self._sizes.too_large(found)) is not None:
            self._server.refuse(sender, reason)
            return False
        held = self._waiting is None and self._sizes.are_new(found)
        self._sizes.note(sender, found)
        self.senders.append(sender)
        if isinstance(self._rule, NormBound):
            parts = self._sizes.shortened(parts, found, self._rule.most)
        if held:
            self._held[sender] = [part for part in parts if part.measured]
            for part in self._held[sender]:
                self._mean(part.key)  # in the order in which they are sent, and not at the end
        self.take(sender, (part for part in parts if not (held and part.measured)))
        return True

    def take(self, sender: str, parts: Iterable[Part]) -> None:
        """Merges what is known to be of a usual size, such as what was sent in an earlier round."""
        for part in parts:
            if self._waiting is not None:
                self._waiting.take(sender, part)
            else:
                self._mean(part.key).add(part.value, part.weight, part.at, part.mask)

    def _mean(self, key: str) -> MaskedMean:
        if key not in self._means:
            self._means[key] = MaskedMean(self._old[key].shape)
        return self._means[key]

    def results(self) -> dict[str, Tensor]:
        """What was merged, by key, of the keys of which anybody sent something. The old values stay as they are.

        Whose layers have measured something far from the others in the first round is refused here.
        """
        for sender, reason in self._sizes.odd(self._held).items():
            self._server.refuse(sender, reason)
            self.senders.remove(sender)
            del self._held[sender]
        for sender, parts in self._held.items():
            self.take(sender, parts)
        self._held = {}
        self._sizes.close()
        if self._waiting is not None:
            self._method.tell_few(self._waiting.holders())
            return self._waiting.results()
        return {key: mean.result(self._old[key]) for key, mean in self._means.items()}


@dataclass
class UpdateSize:
    """How large an update is.

    Args:
        squares: the sum of the squares of its changes; by default 0.
        parts: what of it is changed; by default nothing.
    """

    squares: float = 0.0
    parts: list[Part] = field(default_factory=list)

    @property
    def values(self) -> int:
        """How many values it has."""
        return sum(part.value.numel() for part in self.parts)

    @property
    def change(self) -> float:
        """Its root mean square."""
        return math.sqrt(self.squares / max(1, self.values))


Sizes = Mapping[bool, UpdateSize]
"""The size of an update, by whether it is of what layers have measured, or of what is trained."""


class UpdateSizes:
    """How large updates are, of what is trained and of what is measured apart.

    Root mean squares, so that updates of small and large networks compare.

    Args:
        known: "trained" and "measured" → the medians of earlier rounds; this round's are added.
        old: the values that updates start from, by key.
        limit: how many times as large as a usual one an update may be; None for no limit.
        first: what is taken for a usual update before there was a round to know it by.
    """

    def __init__(
        self, known: dict[str, list[float]], old: Mapping[str, Tensor], limit: float | None, first: float
    ) -> None:
        self._known, self._old, self._limit, self._first = known, old, limit, first
        self._found: dict[str, dict[str, float]] = {}
        self._starts: dict[str, float] = {}
        """Of what size that is which each starts from in what its layers measure, while none is usual."""
        self._whole: dict[str, float] = {}

    def of(self, parts: Iterable[Part]) -> Sizes:
        """The sizes of one update. Counters, as of batches, are not in them."""
        sizes: dict[bool, UpdateSize] = {}
        floats = [part for part in parts if part.value.is_floating_point()]
        each = _squares_of_each([part.value for part in floats], [self._before(part) for part in floats])
        for part, squares in zip(floats, each, strict=True):
            size = sizes.setdefault(part.measured, UpdateSize())
            size.squares += squares
            size.parts.append(part)
        return sizes

    def too_large(self, found: Sizes) -> str | None:
        """Why an update is refused, if it is. A change as large as the values themselves never is."""
        for measured, size in found.items():
            usual = self._usual(measured)
            if self._limit is None or (usual is None and measured):
                continue  # what layers measure at first depends on nothing but the data: all together say it
            if usual is not None and size.change <= self._limit * usual:
                continue
            before = self._mean_before(size)
            if usual is None:
                most = self._limit * max(self._first, before)
            elif before == 0:
                most = self._limit * max(usual, 1.0)  # scores of networks that are hardly trained are small as a rule
            else:
                most = max(self._limit * usual, before)
            if not size.change <= most:
                return self._refused(measured, size.change, most)
        return None

    def _refused(self, measured: bool, change: float, most: float) -> str:
        return (
            f"it changes {_kind(measured)} values by {change:g} in the root mean square; expected at most "
            f"{most:g} (norm_limit = {self._limit:g})"
        )

    def are_new(self, found: Sizes) -> bool:
        """Whether an update has what layers measured, of which there is no usual size yet."""
        return self._limit is not None and True in found and self._usual(True) is None

    def odd(self, senders: Collection[str]) -> dict[str, str]:
        """Which of these have measured far more than most in this round, and why they are refused."""
        if self._limit is None or not senders:
            return {}
        changes = self._found[_kind(True)]
        usual = max(self._first, median_low(changes.values()))
        most = {sender: self._limit * max(usual, self._starts[sender]) for sender in senders}
        odd = [sender for sender in senders if not changes[sender] <= most[sender]]
        return {sender: self._refused(True, changes.pop(sender), most[sender]) for sender in odd}

    def note(self, sender: str, found: Sizes) -> None:
        """Remembers the size of an update that is merged."""
        if self.are_new(found):
            self._starts[sender] = self._mean_before(found[True])
        for measured, size in found.items():
            self._found.setdefault(_kind(measured), {})[sender] = size.change

    def close(self) -> None:
        """The round is over: its medians are known from now on."""
        for kind, sizes in self._found.items():
            self._known[kind] = [*self._known.get(kind, []), median(sizes.values())]
        self._found = {}

    def shortened(self, parts: Iterable[Part], found: Sizes, most: float | None) -> list[Part]:
        """An update that is no longer than ``most``, or, by default, than a usual one."""
        scales = {measured: self._scale(measured, size, most) for measured, size in found.items()}
        return [
            part
            if not part.value.is_floating_point() or scales[part.measured] == 1
            else part.of(_towards(self._before(part), part.value, scales[part.measured]))
            for part in parts
        ]

    def _scale(self, measured: bool, size: UpdateSize, most: float | None) -> float:
        usual = self._usual(measured)
        if most is not None and not measured:
            longest = most / math.sqrt(size.values)
        elif usual is not None:
            longest = usual
        else:
            longest = math.inf if measured else self._mean_before(size) or self._first
        return min(1.0, longest / size.change) if size.change else 1.0

    def _usual(self, measured: bool) -> float | None:
        """The median of earlier rounds; None where there was none, or nothing has changed in them."""
        known = self._known.get(_kind(measured))
        return (median(known) or None) if known else None

    def _before(self, part: Part) -> Tensor:
        """The old values in the place of a part."""
        old = self._old[part.key]
        if part.at is None and part.value.shape == old.shape:
            return old
        return old[window(part.at or [0] * part.value.ndim, part.value.shape)]

    def _mean_before(self, size: UpdateSize) -> float:
        """The root mean square of what an update starts from; of whole tensors it is worked out once for everybody."""
        squares = 0.0
        for part in size.parts:
            old = self._before(part)
            if old is not self._old[part.key]:
                squares += _squares(old)
            else:
                if part.key not in self._whole:
                    self._whole[part.key] = _squares(old)
                squares += self._whole[part.key]
        return math.sqrt(squares / max(1, size.values))


def _squares_of_each(news: list[Tensor], olds: list[Tensor]) -> list[float]:
    """``_squares`` of each pair: of small ones in one call, which gives the same bits."""
    if not news or any(
        new.numel() > BLOCK_VALUES or new.dtype != old.dtype or new.dtype not in (torch.float32, torch.float64)
        for new, old in zip(news, olds, strict=True)
    ):
        return [_squares(new, old) for new, old in zip(news, olds, strict=True)]
    lengths = torch.stack(torch._foreach_norm(torch._foreach_sub(news, olds))).tolist()
    return [
        length**2 if math.isfinite(length**2) else _squares(new, old)
        for length, new, old in zip(lengths, news, olds, strict=True)
    ]


def _squares(new: Tensor, old: Tensor | None = None) -> float:
    """Σ (new - old)², where old is 0 by default, a block at a time; in float64 where squares overflow float32."""
    if new.ndim == 0:
        new, old = new.reshape(1), None if old is None else old.reshape(1)
    found = 0.0
    for rows in _blocks(new):
        change = new[rows] if old is None else new[rows] - old[rows]
        found += float(torch.linalg.vector_norm(change.to(torch.promote_types(change.dtype, torch.float32)))) ** 2
    if math.isfinite(found) or new.dtype == torch.float64:
        return found
    return _squares(new.double(), old)


def _towards(old: Tensor, new: Tensor, scale: float) -> Tensor:
    return old.double() + scale * (new.double() - old.double())


def _kind(measured: bool) -> str:
    return "measured" if measured else "trained"
