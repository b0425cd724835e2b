"""Writes docs/methods.md from what the methods say of themselves and what they cost. `make methods`.

python -m tools.methods_page                          # writes the page
python -m tools.methods_page --measure [METHOD ...]   # measures all methods first, or these
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from potluck.core.errors import PotluckError
from potluck.core.history import readable_bytes
from potluck.federation.method import Method, Needs
from potluck.federation.method_facts import MethodFacts, facts_of, in_words, settings_of
from potluck.methods import METHODS
from potluck.methods.guide import ADVICE, COSTS, GUIDE, costs
from potluck.recipes.fitting import ABOUT, PARTICIPANTS
from tools.method_costs import measure

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
WIDTH = 120

INTRO = """\
# Methods

The {count} methods: what each of them needs, sends and costs, and when to choose it. This page is written from the
code by `make methods`. `potluck methods` tells the same, `potluck methods --fits FILE` of those alone that fit a
federation, and `potluck check FILE` why the others do not. [Methods on one federation](methods-results.md) compares
what they reach, [methods beside others' code](methods-compared.md) what they compute.

Names are written in any case, with or without hyphens: `LG-FedAvg`, `lgfedavg`. Personalised FedAvg is `FedAvg` with
`fine_tune`. Where a method needs no torch modules, a participant may bring any model.
"""

NEEDS = """\
## What they need

What is not marked is not needed. A footnote names the settings with which something that is marked is not needed
either. *Public data* are inputs that all know, *labels* are labels on them.
"""

COST = """\
## What they cost

Measured, not estimated: {rounds} rounds of the federation that `potluck new --method NAME` writes, of {participants}
participants who share the digits that come with scikit-learn. The networks fit the method: the last column says which.
Numbers are those of one participant, on average, in one round, from the second on; what joining takes is apart.

- *Sent* and *received* are bytes of payloads; *of its network* is both together, divided by the size of one's own
  network: so methods can be compared whose federations differ.
- *Passes* is how many samples are trained on, public and repeated ones included, divided by those that one has: 1 for
  Local, whose plan has one epoch. *+ n* are those before the first round. What is trained beside one's own network is
  named.
- *Reads* is the same for samples that networks are only run on.
- *Server* is how many samples the server trains networks of its own on.
"""

CHECKS = """\
## How they are checked

A method is not taken to be right because it learns. Each of them has these tests, all but the last in `make test`:

- `tests/methods/test_NAME.py`: its arithmetic in numbers worked out by hand; whole rounds beside a plain computation in
  PyTorch or numpy that is written from the paper and calls none of Potluck's helpers; what theory says that it must
  equal, such as FedProx with μ = 0 and FedAvg.
- `tests/integration/test_every_method.py`: three rounds are the same on the serial and the batched engine, after a
  break, and over the protocol of a real federation, to 10⁻⁹; everybody learns better than chance; random messages
  neither end a run nor leave a trace; what answers can be exported.
- `tests/integration/test_better_than_local.py`, in `make test-all`: those who claim to be better than training
  alone are so in mean over five seeds of one federation; of those who are not, the docstring says so with the number.

What is computed otherwise than in public code, and what then differs, is in
[methods beside others' code](methods-compared.md).
"""

ABOUT_ALL = ("What they need", "What they cost", "How they are checked")
ROUNDS = 10


def fill(page: Path = PAGE) -> None:
    """Writes the page."""
    page.write_text(text(), encoding="utf-8")


def text() -> str:
    """The page."""
    facts = {name: facts_of(METHODS[name]) for name in ADVICE}
    parts = [
        INTRO.format(count=len(facts)),
        "\n".join(
            f"- [{kind}](#{_anchor(kind)})"
            for kind in ("What they need", "What they cost", "How they are checked", *GUIDE)
        )
        + "\n",
        NEEDS,
        _needs(facts),
        COST.format(rounds=ROUNDS, participants=PARTICIPANTS),
        _costs(facts),
        CHECKS,
        *(_kind(kind, {name: facts[name] for name in names}) for kind, names in GUIDE.items()),
    ]
    return "\n".join(parts)


NEEDED: dict[str, Callable[[Needs], bool]] = {
    "torch modules": lambda needs: needs.torch_module,
    "one architecture": lambda needs: needs.same_architecture,
    "one input shape": lambda needs: needs.one_input_shape,
    "public data": lambda needs: needs.public != "nothing",
    "labels": lambda needs: needs.public == "labels",
    "one label space": lambda needs: needs.one_label_space,
}
"""The columns of the table of needs; whatever else is needed has one column of words."""


def _needs(facts: dict[str, MethodFacts]) -> str:
    notes: list[list[str]] = []
    lines = [_row(["method", *NEEDED, "else", "tasks"]), _row(["---", *[":-:"] * len(NEEDED), "---", "---"])]
    for name, one in facts.items():
        marks = []
        for asks in NEEDED.values():
            spared = sorted(dict.fromkeys(_spares(METHODS[name], asks))) if asks(one.needs) else []
            if spared and spared not in notes:
                notes.append(spared)
            marks.append("" if not asks(one.needs) else f"✓<sup>{notes.index(spared) + 1}</sup>" if spared else "✓")
        tasks = "any" if one.needs.tasks == "any" else ", ".join(one.needs.tasks)
        lines.append(_row([_link(one), *marks, ", ".join(_else(one.needs)), tasks]))
    told = [f"{number}. Not with {' or '.join(settings)}." for number, settings in enumerate(notes, 1)]
    return "\n".join([*lines, "", *told, ""])


def _else(needs: Needs) -> Iterator[str]:
    """What is needed besides what has a column."""
    known = {"torch modules", "public data", "public data with labels", "one input shape", "one label space"}
    for need in in_words(needs):
        if need.startswith("one architecture but for "):
            yield f"{need.removeprefix('one architecture but for ')} may differ"
        elif need not in known | {"one architecture", " or ".join(needs.tasks)}:
            yield need


OTHERS: dict[Any, tuple[Any, ...]] = {bool: (True, False), float: (0,), int: (0,)}
"""What settings of these types are tried with, besides their defaults."""


def _spares(kind: type[Method], asks: Any) -> Iterator[str]:
    """The settings with each of which a method does not need something."""
    for name, setting in settings_of(kind).items():
        annotation = kind.model_fields[name].annotation
        values = get_args(annotation) if get_origin(annotation) is Literal else OTHERS.get(annotation, ())
        for value in values:
            if value == setting.default:
                continue
            try:
                needs = kind(**{name: value}).requires()
            except PotluckError:
                continue
            if not asks(needs):
                yield f"`{name} = {json.dumps(value)}`"


def _costs(facts: dict[str, MethodFacts]) -> str:
    columns = ("method", "sent", "received", "of its network", "joining: sent", "received", "passes", "reads", "server")
    lines = [_row([*columns, "networks"]), _row(["---", *["---:"] * (len(columns) - 1), "---"])]
    for name, one in facts.items():
        cost = costs()[name]
        sizes = [readable_bytes(size) for size in (cost.up, cost.down, cost.joining_up, cost.joining_down)]
        lines.append(
            _row(
                [
                    _link(one),
                    *sizes[:2],
                    f"{cost.of_network:.3g}",
                    *sizes[2:],
                    cost.trained,
                    f"{cost.readings:g}" if cost.readings else "",
                    f"{cost.server:,}" if cost.server else "",
                    cost.family,
                ]
            )
        )
    families = dict.fromkeys(costs()[name].family for name in facts)
    return "\n".join([*lines, "", *(f"- {family}: {ABOUT[family]}." for family in families), ""])


def _kind(kind: str, facts: dict[str, MethodFacts]) -> str:
    return "\n".join([f"## {kind}", "", *(_method(name, one) for name, one in facts.items())])


def _method(name: str, one: MethodFacts) -> str:
    """What is said of a method, in words."""
    advice, needs = ADVICE[name], ", ".join(in_words(one.needs)) or "nothing"
    said = [
        f"- **Needs** {needs}.",
        *(f"- **Sends**, as `{exchange}`: {what}." for exchange, what in one.sends.items()),
        f"- **The server learns** {advice.learns}.",
    ]
    return "\n".join(
        [
            f"### {_name(one)}",
            "",
            *_wrapped(f"{one.title}: {one.about} {one.steps}"),
            "",
            *_wrapped(f"Choose it {advice.choose}."),
            "",
            *(line for point in said for line in _wrapped(point.replace("``", "`"), "  ")),
            "",
        ]
    )


def _wrapped(words: str, indent: str = "") -> Iterable[str]:
    return textwrap.wrap(words, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _name(one: MethodFacts) -> str:
    """What the paper calls it: FedSA-LoRA, where the class is FedSALoRA."""
    return one.sentence.partition(" ")[0].rstrip(":,")


def _link(one: MethodFacts) -> str:
    return f"[{_name(one)}](#{_anchor(_name(one))})"


def _anchor(heading: str) -> str:
    """Where a heading's link leads."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def keep(names: Iterable[str], path: Path = COSTS) -> None:
    """Measures methods, and keeps what comes of it with what is known of the others."""
    known = {name: asdict(cost) for name, cost in costs().items()} if path.exists() else {}
    for name in names:
        known[name] = asdict(measure(name))
        print(f"{name}: {known[name]}")
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(known[name])}" for name in ADVICE)
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    costs.cache_clear()


def main() -> None:
    """What the command does."""
    parser = argparse.ArgumentParser(prog="python -m tools.methods_page", description=__doc__)
    parser.add_argument("--measure", nargs="*", metavar="METHOD", help="measure all methods first, or these")
    given = parser.parse_args()
    if given.measure is not None:
        keep(given.measure or ADVICE)
    fill()


if __name__ == "__main__":
    main()
