"""The model card: what an exported model is, how it is used and where it is from, for people, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from potluck.core.harmless import one_line
from potluck.core.metrics import readable, title
from potluck.export.facts import ModelFacts

PLAIN = {
    "torch": """```python
import torch

program = torch.export.load("model.pt2").module()
answers = program({call})  # {shapes}
```

`weights.safetensors` holds its weights alone{names}.""",
    "skops": """```python
import skops.io

model = skops.io.load("model.skops", trusted=skops.io.get_untrusted_types(file="model.skops"))
answers = model.predict(x)
```

Look at what `get_untrusted_types` lists before you trust it.""",
    "xgboost": """```python
import xgboost

model = xgboost.{name}()
model.load_model("model.ubj")
answers = model.predict(x)
```""",
    "own": """The file `model` was written by the model's own class, {model}, whose `load` reads it.""",
}
"""How each kind of model is used without Potluck."""


def model_card(facts: ModelFacts) -> str:
    """The text of the card."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: ModelFacts) -> Iterator[str]:
    yield from ("---", "library_name: potluck", "tags: [federated-learning]", "---", "")
    yield from (f"# {_text(facts.participant)}'s model", "")
    yield f"A {_code(facts.model)}, trained in a federation by the method {_text(facts.method)}: its owner's data"
    yield "stayed where they are. This card says what it is; `potluck.json` says the same to programs."
    yield from ("", "## What it answers", "")
    yield from _answers(facts)
    yield from ("", "## How to use it", "")
    yield from _use(facts)
    yield from ("", "## How good it is", "")
    yield from _quality(facts)
    yield from ("", "## Where it is from", "", "| | |", "|---|---|")
    for name, value in _origin(facts).items():
        yield f"| {name} | {_text(value)} |"
    yield from ("", "## Before you give it away", "")
    yield "A model can tell something of the data that it learned from, and this folder names its columns, its labels"
    yield "and how many samples there were. Nothing is known here of how it does on data unlike its test data, and no"
    yield "licence comes with it: that is for its owner to say."


def _answers(facts: ModelFacts) -> Iterator[str]:
    yield f"Task: {facts.task}."
    if facts.labels:
        yield f"The columns of its answers are probabilities of: {', '.join(_code(label) for label in facts.labels)}."
    elif facts.task == "regression":
        yield "Its answers are values, in the units of the targets that it learned from."
    yield ""
    for name, about in facts.inputs.items():
        shape = " × ".join(map(str, about.shape)) or "one number"
        yield f"- Input {_code(name)}: for each sample {shape}, as {about.dtype}."
    if facts.columns is not None:
        names = ", ".join(f"{_code(column.name)} ({_text(column.dtype)})" for column in facts.columns)
        yield f"- The table has the columns, in this order: {names}."
    if facts.preprocess is not None:
        yield f"- Before it, `preprocess.skops` prepares inputs: a {_text(facts.preprocess)}, fitted on training data."
    if facts.kind == "torch":
        yield f"- What is done to inputs within the program: {_text(facts.transform)}."


def _use(facts: ModelFacts) -> Iterator[str]:
    yield "With Potluck, which prepares inputs and gives labels or values by their names:"
    yield from ("", "```python", "import potluck", "", 'model = potluck.load("this folder")')
    yield from ("answers = model.predict(x)", "```", "", "    potluck predict 'this folder' DATA.csv", "")
    yield from ("Without it" + (", once inputs are prepared:" if facts.preprocess else ":"), "")
    names = list(facts.inputs)
    yield PLAIN[facts.kind].format(
        call=", ".join(names if all(map(str.isdigit, names)) or names == ["x"] else [f"{n}={n}" for n in names]),
        shapes=", ".join(f"{name}: (rows, {', '.join(map(str, about.shape))})" for name, about in facts.inputs.items()),
        names=", under the names of its network's `state_dict`" if facts.kind == "torch" else "",
        name=facts.model.rpartition(".")[2],
        model=_text(facts.model),
    )
    if facts.numbered:
        known = ", ".join(_code(facts.labels[place]) for place in facts.occurring)
        yield ""
        yield f"It knows the labels by number: 0, 1, … stand for {known}."
    if "model.onnx" in facts.files:
        yield from ("", "`model.onnx` is the same as ONNX.")


def _quality(facts: ModelFacts) -> Iterator[str]:
    if not facts.test_samples:
        yield "It was not measured: there were no test data."
        return
    yield f"On {facts.test_samples} test samples, {_text(facts.test_data)}, which nothing was chosen by:"
    yield from ("", "| metric | |", "|---|---|")
    for name, value in facts.metrics.items():
        yield f"| {title(name)} | {readable(name, value)} |"


def _origin(facts: ModelFacts) -> dict[str, Any]:
    return {
        "participant": facts.participant,
        "trained on": f"{facts.training_samples} samples of its own",
        "method": facts.about_method,
        "its settings": _settings(facts.method_settings) or "none",
        "rounds": facts.rounds,
        "seed": facts.seed,
        **({"plan": _settings(facts.plan)} if facts.kind == "torch" else {}),
        **facts.provenance,
        "exported": facts.made,
        "versions": ", ".join(f"{name} {found}" for name, found in facts.versions.items()),
        **{f"SHA-256 of `{name}`": found for name, found in facts.files.items()},
    }


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in settings.items() if value is not None)


def _text(value: Any) -> str:
    """On one line, and nothing that Markdown would take for more than text in a table."""
    return one_line(str(value)).replace("|", "\\|").replace("<", "&lt;")


def _code(value: Any) -> str:
    return f"`{_text(value).replace('`', '')}`"
