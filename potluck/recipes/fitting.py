"""A small federation that fits a method, as the text of a run file: what `potluck new --method` writes.

The methods' page measures bytes and steps in the same federations.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any

from potluck.core.errors import SettingsError
from potluck.federation.method import Needs
from potluck.federation.method_facts import SettingFacts, facts_of, in_words, plain
from potluck.methods import METHODS

WIDTH = 100
"""Of a line."""

MODELS_OF_FAMILIES = {
    "answers": ('"mlp"', '{ name = "cnn", channels = [8, 16] }', '"sklearn.tree:DecisionTreeClassifier"'),
    "mixed": ('"mlp"', '{ name = "cnn", channels = [8, 16] }'),
    "named": ('"mlp"', '"cofed3"'),
    "alike": ('{ name = "cnn", channels = [8, 16], norm = true }',),
    "widths": tuple(
        f'{{ name = "cnn", channels = [16, 32], norm = true, rate = "{rate}", scale = true }}' for rate in "abcd"
    ),
    "depths": (
        '{ name = "resnet14", stem = "small", width = 4 }',
        '{ name = "resnet10", stem = "small", width = 4 }',
    ),
    "exits": (
        '{ name = "exit_resnet10", stem = "small", width = 8 }',
        '{ name = "exit_resnet10", stem = "small", width = 8, rate = 0.5, exits = 2 }',
    ),
    "adapters": (
        '{ name = "lora", base = "mlp", rank = 8 }',
        '{ name = "lora", base = "mlp", rank = 4 }',
    ),
}
"""The networks that are brought, by family; four participants share them. They are for images of 8 × 8 pixels: there
the last layers of "mlp" and of this "cnn" both read 64 numbers, so that heads and prototypes fit."""

ABOUT = {
    "answers": "models of any kind: answers alone travel",
    "mixed": "networks of two kinds, whose last layers read equally many numbers",
    "named": "networks of two kinds that the server can build",
    "alike": "one network for all",
    "widths": "one family of networks, from the whole one to an eighth of its width",
    "depths": "one family of networks of two depths",
    "exits": "one family of networks with early exits, cut in width and depth",
    "adapters": "one network with adapters of two ranks",
}
"""What a family is, in words."""

OF_METHODS = {
    "DENSE": "named",
    "FedDF": "named",
    "FedRolex": "widths",
    "FedSALoRA": "adapters",
    "FlexLoRA": "adapters",
    "FLoRA": "adapters",
    "HeteroFL": "widths",
    "HetLoRA": "adapters",
    "HFL": "alike",
    "InclusiveFL": "depths",
    "InCo": "depths",
    "ScaleFL": "exits",
}
"""The family of those methods whose needs alone do not tell it."""

CHOSEN: dict[str, dict[str, Any]] = {
    **{name: {"architectures": ["mlp", "cofed3"]} for name in ("DENSE", "FedDF")},
    **{name: {"base": "sent"} for name in ("FedSALoRA", "FlexLoRA", "FLoRA", "HetLoRA")},
}
"""Settings without which a method does not fit its family."""

RATES = {"DraftFed": 0.02}
"""Learning rates of methods that are not stable with the usual one."""

PARTICIPANTS = 4


def family_of(name: str, needs: Needs) -> str:
    """The family of networks that fits a method."""
    if name in OF_METHODS:
        return OF_METHODS[name]
    if needs.same_architecture:
        return "alike"
    if needs.stages or needs.convolutions:
        return "depths"
    return "mixed" if needs.torch_module else "answers"


def fitting_file(name: str) -> str:
    """The text of a run file for a method, by its name, whose federation fits it."""
    facts = facts_of(METHODS[name])
    family = family_of(facts.name, facts.needs)
    needed = ", ".join(in_words(facts.needs)) or "nothing"
    return "\n".join(
        [
            *_comment(facts.sentence),
            *_comment(f"It needs: {needed}. Here: {ABOUT[family]}."),
            *_comment("What fits is told by `potluck check`; `--set method=Local` shows what everyone reaches alone."),
            "",
            "rounds = 10",
            "seed = 0",
            "",
            *method_table(name),
            "",
            *_data(facts.needs),
            "",
            "# How networks train, unless a participant says otherwise.",
            "[plan]",
            'optimizer = "sgd"',
            f"lr = {RATES.get(facts.name, 0.05)}",
            "epochs = 1",
            "batch_size = 16",
            "",
            "# Everyone brings a model: one of `potluck models`, or one's own: `mine:build`, of mine.py.",
            *_participants(family, facts.needs),
        ]
    )


def method_table(name: str) -> list[str]:
    """The lines of a method's table: its name, what must be chosen, and as comments what else can be set."""
    facts = facts_of(METHODS[name])
    if missing := [key for key, setting in facts.settings.items() if setting.required]:
        raise SettingsError(f"{name} must be told {', '.join(missing)}; begin with `potluck new`, and set its method.")
    chosen = CHOSEN.get(facts.name, {})
    lines = [
        "[method]",
        f"name = {json.dumps(facts.name if facts.name in METHODS else name)}",
        *(f"{key} = {json.dumps(value)}" for key, value in chosen.items()),
    ]
    for key, setting in facts.settings.items():
        if key not in chosen:
            lines += _setting(key, setting)
    return lines


def _setting(key: str, setting: SettingFacts) -> list[str]:
    value = "…" if setting.default is None else _toml(plain(setting.default))
    return [*_comment(setting.about, indent="#   "), f"# {key} = {value}"]


def _data(needs: Needs) -> list[str]:
    lines = [
        "# The samples, and who holds which. `potluck data` lists sources and partitions.",
        "[data]",
        'source = "digits"',
        'partition = { name = "dirichlet", alpha = 0.5, minimum = 20 }',
    ]
    if needs.public != "nothing":
        labelled = ", labelled = true" if needs.public == "labels" else ""
        lines.append(f"public = {{ take = 200{labelled} }}")
    return lines


def _participants(family: str, needs: Needs) -> list[str]:
    models, lines = MODELS_OF_FAMILIES[family], []
    for number in range(PARTICIPANTS):
        lines += ["[[participants]]", f'name = "p{number + 1}"', f"model = {models[number % len(models)]}"]
        lines += ["validation = 0.2"] if needs.validation else []
        lines += [""] if number + 1 < PARTICIPANTS else []
    return [*lines, ""]


def _comment(text: str, indent: str = "# ") -> list[str]:
    text = text.replace("``", "`")
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
