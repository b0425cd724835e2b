"""Lines that a server writes, without the times at which it did."""

from __future__ import annotations

import re
from collections.abc import Iterable

TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


def timeless(lines: Iterable[str]) -> list[str]:
    """The lines without their times."""
    return [TIME.sub("", line) for line in lines]
