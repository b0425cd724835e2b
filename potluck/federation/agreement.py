"""What participants must have in common: what the federation knows already, or what most of them say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from potluck.core.errors import RequirementsError
from potluck.federation.server import Server

Common = TypeVar("Common")


def agreed(
    server: Server, said_by: Mapping[str, Common], differs: Callable[[Common, Common], str], known: Common | None = None
) -> Common:
    """What all must have in common. Whoever says something else is refused; who comes first decides nothing.

    Args:
        server: refuses the odd ones.
        said_by: what each says, in values that JSON can hold.
        differs: says in words how one differs from what is agreed.
        known: what is settled already, as by those who joined before or by the federation's file; by default nothing.
    """
    common = most(said_by, differs) if known is None else known
    for sender, said in said_by.items():
        if said != common:
            server.refuse(sender, differs(said, common))
    return common


def most(said_by: Mapping[str, Common], differs: Callable[[Common, Common], str]) -> Common:
    """What more say than anything else. Raises RequirementsError where nobody can tell who is odd."""
    texts = {sender: json.dumps(said, sort_keys=True) for sender, said in sorted(said_by.items())}
    by_text = {text: sender for sender, text in reversed(texts.items())}
    (first, count), *others = Counter(texts.values()).most_common(2)
    if others and others[0][1] == count:
        one, other = sorted((by_text[first], by_text[others[0][0]]))
        raise RequirementsError(
            f"{other} differs from {one}: {differs(said_by[other], said_by[one])}. As many say the one as the other, "
            f"so that nobody can tell whose is meant."
        )
    return said_by[by_text[first]]
