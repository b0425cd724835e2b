"""The fact in which a participant tells the names, types and shapes of what it shares, within what may be allocated."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from potluck.core.architecture import Layout
from potluck.core.payload import MAX_TENSORS, dtype_named


def _entry(entry: list[str | int]) -> list[str | int]:
    """A type that can travel, then a shape."""
    kind, *shape = entry
    dtype_named(str(kind))
    if not all(isinstance(length, int) and 0 <= length < 2**40 for length in shape):
        raise ValueError(f"{entry} is no type and shape")
    return entry


@lru_cache
def layout_fact(budget: int) -> Any:
    """The type of a layout of as many bytes as a payload may have: each entry's type and shape by name."""

    def fits(layout: Layout) -> Layout:
        if odd := [name for name in layout if not name.isprintable() or name == "__metadata__"]:
            raise ValueError(f"expected printable names, unlike {odd[0]!r}")
        sizes = [dtype_named(str(kind)).itemsize * math.prod(map(int, shape)) for kind, *shape in layout.values()]
        if sum(sizes) > budget:
            raise ValueError(f"expected entries of at most {budget} bytes, which these exceed: {sum(sizes)}")
        return layout

    entry = Annotated[list[str | int], Field(min_length=1, max_length=9), AfterValidator(_entry)]
    return Annotated[dict[str, entry], Field(max_length=MAX_TENSORS), AfterValidator(fits)]
