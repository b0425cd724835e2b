"""Draws Mermaid's sequence diagrams as SVG when the site is built: no script is loaded, from here or elsewhere.

Of Mermaid's language it knows participants with a name each, and arrows ``->>`` and ``-->>`` with a text; anything else
is an error, so that nothing is left out in silence.
"""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_PARTICIPANT = re.compile(r"participant (\w+) as (.+)")
_ARROW = re.compile(r"(\w+)(--?>>)(\w+): (.+)")
CHARACTER, ROW, TOP = 7.2, 34, 60
"""How wide a character is, how high a message, and where the first one stands: in pixels of the picture."""


def read(text: str) -> tuple[dict[str, str], list[tuple[str, str, bool, str]]]:
    """Letter → participant, and the messages: from whom, to whom, whether it is an answer, what."""
    people, messages = dict[str, str](), list[tuple[str, str, bool, str]]()
    first, *lines = [line.strip() for line in text.strip().splitlines()]
    if first != "sequenceDiagram":
        raise ValueError(f"the diagram is a {first!r}; expected a sequenceDiagram, or draw others here, too.")
    for line in lines:
        if found := _PARTICIPANT.fullmatch(line):
            people[found[1]] = found[2]
        elif found := _ARROW.fullmatch(line):
            messages.append((found[1], found[3], found[2] == "-->>", found[4]))
        else:
            raise ValueError(f"{line!r}: expected a participant with a name, or an arrow ->> or -->> with a text.")
    if unknown := {name for message in messages for name in message[:2]} - set(people):
        raise ValueError(f"no participant is {', '.join(sorted(unknown))}.")
    return people, messages


def draw(text: str) -> str:
    """The diagram as SVG, in the page's own colour, with its messages as the text that a screen reader reads."""
    people, messages = read(text)
    x = _columns(people, messages)
    height = TOP + ROW * len(messages) + 10
    width = max(x.values()) + max(CHARACTER * len(list(people.values())[-1]) / 2 + 12, 40)
    told = "; ".join(f"{people[one]} to {people[other]}: {what}" for one, other, _, what in messages)
    parts = [
        f'<svg class="sequence" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img" '
        f'aria-label="{escape(told)}" font-size="12" fill="currentColor" stroke="none">'
    ]
    for name, called in people.items():
        half = CHARACTER * len(called) / 2 + 8
        parts.append(
            f'<line x1="{x[name]:.0f}" y1="34" x2="{x[name]:.0f}" y2="{height}" stroke="currentColor" opacity="0.3"/>'
            f'<rect x="{x[name] - half:.0f}" y="8" width="{2 * half:.0f}" height="26" rx="4" fill="none" '
            f'stroke="currentColor"/><text x="{x[name]:.0f}" y="25" text-anchor="middle">{escape(called)}</text>'
        )
    for number, (one, other, answer, what) in enumerate(messages):
        y = TOP + ROW * number
        parts.append(_arrow(x[one], x[other], y, answer, what))
    return "".join([*parts, "</svg>"])


def _columns(people: dict[str, str], messages: list[tuple[str, str, bool, str]]) -> dict[str, float]:
    """Where each participant stands: as far from the one before as names and texts between the two need."""
    place = CHARACTER * len(next(iter(people.values()))) / 2 + 12
    x = {next(iter(people)): place}
    for before, name in pairwise(people):
        texts = [len(what) for one, other, _, what in messages if {one, other} == {before, name}]
        texts += [len(what) + 4 for one, other, _, what in messages if one == other == before]
        names = (len(people[before]) + len(people[name])) / 2 + 4
        place += CHARACTER * max([names, *texts])
        x[name] = place
    return x


def _arrow(start: float, end: float, y: int, answer: bool, what: str) -> str:
    dashes = ' stroke-dasharray="5 4"' if answer else ""
    if start == end:
        path = f"M{start:.0f} {y}h26v12h-20"
        tip, side, middle, anchor = start, 1, start + 32, "start"
    else:
        side = -1 if end > start else 1
        path = f"M{start:.0f} {y}H{end + 2 * side:.0f}"
        tip, middle, anchor = end, (start + end) / 2, "middle"
    level = y + 12 if start == end else y
    text_y = y + 4 if start == end else y - 6
    return (
        f'<path d="{path}" fill="none" stroke="currentColor"{dashes}/>'
        f'<path d="M{tip:.0f} {level}l{8 * side} -4v8z"/>'
        f'<text x="{middle:.0f}" y="{text_y}" text-anchor="{anchor}">{escape(what)}</text>'
    )


class Mermaid(SphinxDirective):
    """A fence of the language ``mermaid``."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        try:
            drawn = draw(text)
        except ValueError as error:
            raise self.error(str(error)) from error
        return [nodes.raw("", f'<div class="sequence-frame" tabindex="0">{drawn}</div>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True}
