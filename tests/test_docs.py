"""The documentation's code runs: every Python block, and every method it defines on both engines.

The sketches of methods in ``docs/adding-a-method.md`` also meet the numbers worked out by hand.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import potluck
from potluck.core.model_view import ModelView
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg
from potluck.methods.fedin import exact
from potluck.methods.guide import ADVICE
from tests.tables import PLAN, agree, made_data, participants, weights_agree

ROOT = Path(__file__).parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FENCE = re.compile(r"^```(.*)$")


def blocks(page: Path) -> list[tuple[int, str]]:
    """The page's Python blocks and the lines they begin on. A block marked ``python no-run`` is left out."""
    found, language, start = [], None, 0
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if not (fence := FENCE.match(line)):
            continue
        if language is None:
            language, start = fence[1].strip(), number
        else:
            if language == "python":
                found.append((start, "\n".join(lines[start : number - 1])))
            language = None
    assert language is None, f"{page.name}: the block that begins on line {start} does not end"
    return found


GUIDE = ROOT / "docs" / "adding-a-method.md"
RUNNABLE = [page for page in [*PAGES, ROOT / "README.md"] if page != GUIDE and blocks(page)]
"""The pages with Python in them, but for the guide, which is run for all of its tests at once."""


def prose(page: Path) -> str:
    """The page without code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S))


def run_page(page: Path) -> dict[str, Any]:
    """What is defined after all blocks of a page have run, one after the other. Errors name the page's own lines."""
    names: dict[str, Any] = {"__name__": page.stem}
    for start, code in blocks(page):
        exec(compile("\n" * start + code, str(page), "exec", dont_inherit=True), names)
    return names


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Networks this small only lose time by sharing the work out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    return run_page(GUIDE)


def in_guide(kind: str) -> list[str]:
    """The names of the page's methods, or tests: read from its text, so that pytest can list them."""
    text = GUIDE.read_text()
    if kind == "tests":
        return re.findall(r"^def (test_\w+)", text, re.M)
    bases = ["Method", "FedAvg"]
    for name, base in re.findall(r"^class (\w+)\((\w+)\):", text, re.M):
        bases += [name] if base in bases else []
    return bases[2:]


# Pages


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_the_readme_names_every_method():
    """Each once in its list, and how many there are."""
    listed = (ROOT / "README.md").read_text().split("It holds [")[1].split("A method is written")[0]
    words = re.findall(r"[A-Za-z][\w-]*", listed)
    names = {word.replace("-", "").lower() for word in words}
    assert {name.lower() for name in ADVICE} <= names
    assert listed.startswith(f"{len(ADVICE)} methods]")


def test_every_page_is_listed_in_the_index():
    """The site takes its contents from there."""
    index = ROOT / "docs" / "index.md"
    _, *sections = re.split(r"^## ", index.read_text(), flags=re.M)
    listed = {target for section in sections for target in re.findall(r"^- \[[^]]*\]\(([^)]*\.md)\)", section, re.M)}
    missing = {page.name for page in index.parent.glob("*.md")} - listed - {index.name}
    assert not missing, (
        "list it in docs/index.md, under the heading where a reader would look: - [Title](page.md): what"
    )


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=str)
def test_no_page_is_left_half_merged(page):
    assert not re.findall(r"^(?:<{7} .*|={7}|>{7} .*)$", page.read_text(), re.M)


def test_each_test_that_holds_a_promise_is_there():
    table = (ROOT / "docs" / "security.md").read_text().partition("## What is promised")[2]
    named = re.findall(r"`(tests/[\w/.]+)`", table)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert all(row.count("|") == 3 and "`" in row for row in table.splitlines()[4:] if row.startswith("|"))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", prose(page)):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_a_page_lead_to_a_heading(page):
    text = prose(page)
    headings = {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


@pytest.mark.parametrize("name", in_guide("tests"))
def test_the_guides_own_tests_pass(guide, name):
    guide[name]()


# Every method on both engines

SMALL = {"pixels": 36, "classes": 3}
SIZES = (16, 12, 16, 9, 16)
MOMENTUM = PLAN.replace(epochs=1)
PLAIN = MOMENTUM.replace(momentum=0.0)


def layered(guide, seed, **settings):
    torch.manual_seed(seed)
    return guide["layered"](**SMALL, **settings).double()


def alike(guide):
    return [layered(guide, i) for i in range(5)]


def by_depth(guide):
    return [layered(guide, i, blocks=1 + i % 2) for i in range(5)]


def by_width(guide):
    torch.manual_seed(0)
    return [guide["Slim"](rate, **SMALL).double() for rate in (0.5, 1.0, 0.5, 1.0, 0.25)]


def by_exits(guide):
    torch.manual_seed(0)
    return [
        guide["Exits"](stages, rate, **SMALL).double()
        for stages, rate in ((3, 1), (2, 0.5), (3, 1), (2, 0.5), (1, 0.5))
    ]


# Method → settings, models, plan, what the participants need besides.
FEDERATIONS: dict[str, tuple[dict[str, Any], Any, potluck.Plan, dict[str, Any]]] = {
    "Opinions": ({}, by_depth, MOMENTUM, {}),
    "Near": ({}, by_depth, MOMENTUM, {}),
    "Smooth": ({}, by_depth, MOMENTUM, {}),
    "Private": ({}, by_depth, MOMENTUM, {}),
    "HeadOnly": ({}, by_depth, MOMENTUM, {}),
    "Noisy": ({}, by_depth, MOMENTUM, {}),
    "AsBefore": ({}, by_depth, MOMENTUM, {}),
    "Remember": ({}, by_depth, MOMENTUM, {}),
    "Teacher": ({}, by_depth, MOMENTUM, {}),
    "FedProx": ({"mu": 0.1}, alike, MOMENTUM, {}),
    "Half": ({}, alike, MOMENTUM, {}),
    "OwnHead": ({}, alike, MOMENTUM, {}),
    "Examined": ({"examine": True}, by_depth, MOMENTUM, {}),
    "SCAFFOLD": ({}, alike, PLAIN, {}),
    "MOON": ({}, alike, MOMENTUM, {}),
    "Nested": ({}, by_width, MOMENTUM, {}),
    "HeteroFL": ({}, by_width, MOMENTUM, {}),
    "ScaleFL": ({"gamma": 0.1}, by_exits, MOMENTUM, {}),
    "Hermes": ({"threshold": 0.4}, alike, MOMENTUM, {"validation": 0.3}),
    "FedMD": ({"subset": 20, "revisit_epochs": 1}, by_depth, MOMENTUM, {}),
}


PLAYED: dict[tuple[Any, ...], Any] = {}
SKETCHES = ["SCAFFOLD", "MOON", "HeteroFL", "ScaleFL", "Hermes", "FedMD"]


def play(guide, name, engine, *, rounds=2, reverse=False, participation=1.0):
    """A federation, its rows and its participants. What was played before is not played again."""
    what = (name, engine, rounds, reverse, participation)
    if what not in PLAYED:
        PLAYED[what] = _play(guide, *what)
    return PLAYED[what]


def _play(guide, name, engine, rounds, reverse, participation):
    settings, models, plan, extra = FEDERATIONS[name]
    people = participants(models(guide), sizes=SIZES, plan=plan, **extra)
    federation = potluck.Federation(
        people[::-1] if reverse else people,
        guide[name](**settings),
        public=made_data(24, 60),
        test=made_data(40, 61),
        seed=2,
        engine=engine,
        participation=participation,
    )
    return federation, federation.run(rounds).rows(), people


def test_every_method_of_the_guide_is_tried():
    assert in_guide("methods") == list(FEDERATIONS)


@pytest.mark.parametrize("name", FEDERATIONS)
def test_engines_agree(guide, name, caplog):
    with caplog.at_level(logging.WARNING):
        _, alone, people = play(guide, name, "serial")
        federation, together, others = play(guide, name, "batched")
    assert "cannot be stacked" not in caplog.text
    assert not any(row["refused"] for row in alone)
    agree(alone, together, 1e-10)
    weights_agree(people, others, 1e-10)
    is_plain(federation.server.state)
    for person in others:
        is_plain(person.state)


@pytest.mark.parametrize("name", SKETCHES)
def test_a_rehearsal_sends_as_many_bytes(guide, name):
    def traffic(engine):
        return [(row["bytes_up"], row["bytes_down"], row["refused"]) for row in play(guide, name, engine)[1]]

    assert traffic("dry-run") == traffic("serial")


@pytest.mark.parametrize("name", ["SCAFFOLD", "MOON", "Hermes"])
def test_batchnorm_may_stay_local_in_what_extends_fedavg(guide, name):
    settings, models, plan, extra = FEDERATIONS[name]
    people = participants(models(guide), sizes=SIZES, plan=plan, **extra)
    method = guide[name](**settings, batchnorm="local")
    assert not any(row["refused"] for row in potluck.Federation(people, method).run(2).rows())
    one, other = people[0].weights(), people[1].weights()
    torch.testing.assert_close(one["head.weight"], other["head.weight"])
    assert not torch.equal(one["stages.0.1.running_mean"], other["stages.0.1.running_mean"])


@pytest.mark.parametrize("name", SKETCHES)
def test_the_order_of_the_participants_changes_nothing(guide, name):
    _, forward, _ = play(guide, name, "serial")
    _, backward, _ = play(guide, name, "serial", reverse=True)
    agree(forward, sorted(backward, key=lambda row: (row["round"], row["participant"])), 1e-10)


@pytest.mark.parametrize("name", SKETCHES)
def test_partial_participation_agrees(guide, name):
    """Who sat out fetches first, and meets the others again."""
    _, alone, _ = play(guide, name, "serial", participation=0.8)
    _, together, _ = play(guide, name, "batched", participation=0.8)
    sat_out, there = present(alone)
    assert sat_out & there
    agree(alone, together, 1e-10)


@pytest.mark.parametrize("name", ["SCAFFOLD", "MOON"])
def test_who_sat_out_ends_with_the_model_of_all(guide, name):
    _, rows, people = play(guide, name, "serial", participation=0.8)
    sat_out, there = present(rows)
    first, *others = [person for person in people if person.name in there]
    assert sat_out & there, "somebody has come back"
    assert others, "there is somebody to compare with"
    for other in others:
        torch.testing.assert_close(first.weights(), other.weights(), rtol=0, atol=0)


def present(rows):
    """Who sat out the first round, and who was there in the second."""
    sat_out = {row["participant"] for row in rows if row["round"] == 1 and not row["took_part"]}
    return sat_out, {row["participant"] for row in rows if row["round"] == 2 and row["took_part"]}


def is_plain(state):
    """State that a checkpoint can hold."""
    if isinstance(state, dict):
        assert all(isinstance(key, str) for key in state)
        state = list(state.values())
    if isinstance(state, list):
        for item in state:
            is_plain(item)
    else:
        assert isinstance(state, torch.Tensor | str | int | float | bool | type(None)), state


# Numbers worked out by hand


def server(**state):
    return Server(0, {"a": 1.0, "b": 1.0, "c": 1.0}, state=state)


def close(found, expected):
    torch.testing.assert_close(torch.as_tensor(found), torch.tensor(expected), rtol=0, atol=1e-6)


class Steep(nn.Module):
    """One weight whose gradient is 2 wherever it stands: the label is the second, and the first is far ahead."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))

    def forward(self, x):
        ahead = 2 * self.w + 1000 + 0 * x.flatten(1).sum(1)
        return torch.stack([ahead, torch.zeros_like(ahead)], dim=1)


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_scaffold(guide, engine):
    """x=1, η=0.1, K=2, g=2, c=0.2, c_i=0.5 → y 0.66, c_i 2.0, c 0.35 with N=10."""
    data = (torch.zeros(4, 1, dtype=torch.float64), torch.ones(4, dtype=torch.long))
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=2)
    people = [potluck.Participant(f"p{i}", Steep(), data, plan=plan, labels=[0, 1]) for i in range(10)]
    federation = potluck.Federation(people, guide["SCAFFOLD"](), participation=0.1, engine=engine)
    federation.run(0)
    federation.server.state["c"] = {"w": torch.tensor(0.2, dtype=torch.float64)}
    for person in people:
        person.state.update(c={"w": torch.tensor(0.2).double()}, c_i={"w": torch.tensor(0.5).double()})
    rows = federation.run(1).rows()
    (present,) = [federation.participants[row["participant"]] for row in rows if row["took_part"]]
    close(present.weights()["w"].item(), 0.66)
    close(present.state["c_i"]["w"].item(), 2.0)
    close(federation.server.state["c"]["w"].item(), 0.35)


def test_scaffold_sends_twice_what_fedavg_sends(guide):
    def traffic(method):
        people = participants([layered(guide, i) for i in range(3)], plan=PLAIN)
        rows = potluck.Federation(people, method).run(2).rows()
        return people[0], {(row["bytes_up"], row["bytes_down"]) for row in rows if row["round"] == 2}

    person, single = traffic(FedAvg())
    weights = person.weights()
    assert single == {(Payload(weights).size, Payload(weights).size)}
    control = {name: weights[name] for name in person.network.trainable()}
    both = Payload({**weights, **guide["under"]("c", control)}).size
    assert traffic(guide["SCAFFOLD"]())[1] == {(both, both)}


def test_scaffold_refuses_momentum(guide):
    with pytest.raises(potluck.RequirementsError, match="p0: SCAFFOLD needs plain SGD"):
        potluck.Federation(participants(alike(guide)), guide["SCAFFOLD"]()).run(1)


def test_moon(guide):
    """Cosines .8 and .2, τ .5 → 0.263282."""
    z = torch.tensor([[1.0, 0.0]])
    z_global, z_previous = torch.tensor([[0.8, 0.6]]), torch.tensor([[0.2, 0.96**0.5]])
    close(guide["contrast"](z, z_global, z_previous, 0.5), 0.263282)


def test_fedin():
    """G_local (1, 1), G_IN (1, −4): exact (2.5, −2.5). G_IN (3, −1): exact leaves it."""

    def combined(inner):
        gradients = [{"stages.w": torch.tensor([1.0, 1.0]), "head.w": torch.tensor([7.0])}]
        gradients += [{"stages.w": torch.tensor(inner), "head.w": torch.tensor([0.0])}]
        found = exact(gradients, {"stages": {"intermediate": ["stages"]}})
        close(found["head.w"], [7.0])
        return found["stages.w"]

    close(combined([1.0, -4.0]), [2.5, -2.5])
    close(combined([3.0, -1.0]), [3.0, -1.0])


def test_heterofl(guide):
    """Old all 9, [[1, 2], [3, 4]] and [[5]] → [[3, 2], [3, 4]]. Head 7, 7, 7, A owns {0, 1}, B {1} → 1, 4, 7."""
    whole = {"body": ["float32", 2, 2], "head.bias": ["float32", 3]}
    half = {"body": ["float32", 1, 1], "head.bias": ["float32", 3]}
    owned = {"a": torch.tensor([True, True, False]), "b": torch.tensor([False, True, False])}
    a = Payload({"body": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "head.bias": torch.tensor([1.0, 2.0, 3.0])})
    b = Payload({"body": torch.tensor([[5.0]]), "head.bias": torch.tensor([4.0, 6.0, 8.0])})

    def after(*answers):
        old = {"body": torch.full((2, 2), 9.0), "head.bias": torch.full((3,), 7.0)}
        layouts = {"a": whole, "b": half}
        holder = server(layouts=layouts, digests={"a": "whole", "b": "half"}, owned=owned, **{"global": old})
        replies = guide["HeteroFL"]().weights(holder, iter(answers))
        return holder.state["global"], replies

    found, replies = after(("a", a), ("b", b))
    close(found["body"], [[3.0, 2.0], [3.0, 4.0]])
    close(found["head.bias"], [1.0, 4.0, 7.0])
    close(replies["b"]["body"], [[3.0]])
    found, _ = after(("b", b))
    close(found["body"], [[5.0, 9.0], [9.0, 9.0]])


class Fixed(nn.Module):
    """Answers with its inputs."""

    def forward(self, x):
        return x


def test_heterofl_loss(guide):
    """Logits [2, 1, 3], owned {0, 1}, label 0 → 0.407606."""
    batch = {"x": torch.tensor([[2.0, 1.0, 3.0]]), "y": torch.tensor([0])}
    given = {"owned": torch.tensor([True, True, False])}
    close(guide["masked_cross_entropy"](ModelView(Fixed()), batch, given), 0.407606)


def test_scalefl(guide):
    """Exits' cross-entropies 1, .8, .5, γ 0 → 0.683333; the objective weighs them just so."""
    close(guide["over_exits"]([torch.tensor(1.0), torch.tensor(0.8), torch.tensor(0.5)]), 0.683333)
    torch.manual_seed(0)
    model = guide["Exits"](stages=3, **SMALL)
    batch = {"x": torch.randn(5, 1, 6, 6), "y": torch.tensor([0, 1, 2, 0, 1])}
    exits = ["exits.0", "exits.1", "exits.2"]
    loss = guide["exits_loss"](ModelView(model), batch, {"exits": exits, "gamma": 0.0, "temperature": 3.0})
    _, taken = ModelView(model).taps(batch["x"], exits)
    hard = [nn.functional.cross_entropy(taken[name], batch["y"]) for name in exits]
    close(loss, ((hard[0] + 2 * hard[1] + 3 * hard[2]) / 6).item())


@pytest.mark.parametrize(("overlap", "expected"), [("all", [3.0, 2.0, 0.0]), ("holders", [3.0, 4.0, 0.0])])
def test_hermes(guide, overlap, expected):
    """A keeps 110 [1, 2, 0], B 101 [3, 0, 5], C 110 [5, 6, 0] → A [3, 2, 0], B [3, 0, 5], C [3, 6, 0]."""
    own = {"a": [1.0, 2.0, 0.0], "b": [3.0, 0.0, 5.0], "c": [5.0, 6.0, 0.0]}
    kept = {name: {"w": torch.tensor(values) != 0} for name, values in own.items()}
    answers = [
        (name, Payload({"w": torch.tensor(values), **guide["under"]("kept", kept[name])}))
        for name, values in own.items()
    ]
    method, layout = guide["Hermes"](overlap=overlap), {"w": ["float32", 3]}
    old = {method.key(layout, "w"): torch.zeros(3)}
    known = {"layouts": dict.fromkeys(own, layout), "digests": dict.fromkeys(own, "one")}
    replies = method.weights(server(**known, **{"global": old}), iter(answers))
    merged = {name: method.merged({"w": torch.tensor(own[name])}, kept[name], replies[name])["w"] for name in own}
    close(merged["a"], expected)
    if overlap == "all":
        close(merged["b"], [3.0, 0.0, 5.0])
        close(merged["c"], [3.0, 6.0, 0.0])


def test_hermes_prunes_whole_filters_and_trains_only_the_rest(guide):
    _, rows, people = play(guide, "Hermes", "batched")
    kept = [row["kept"] for row in rows if row["took_part"]]
    assert min(kept) < max(kept)
    for person in people:
        for name, mask in person.state["kept"].items():
            assert int(mask.sum()) >= len(mask) / 2
            assert not person.weights()[name][~mask.flatten()].any()


def test_hermes_needs_validation_data(guide):
    with pytest.raises(potluck.RequirementsError, match="p0: Hermes prunes by validation accuracy"):
        potluck.Federation(participants(alike(guide)), guide["Hermes"]()).run(1)


def test_fedmd(guide):
    """Logits [1, 3] and [3, 5] → mean [2, 4], MAE 1."""
    answers = [
        ("a", Payload({"logits": torch.tensor([[1.0, 3.0]])})),
        ("b", Payload({"logits": torch.tensor([[3.0, 5.0]])})),
    ]
    reply = guide["FedMD"]().scores(server(labels=2), iter(answers))
    close(reply["logits"], [[2.0, 4.0]])
    batch = {"x": torch.tensor([[1.0, 3.0]]), "aim": reply["logits"]}
    close(guide["mean_absolute_error"](ModelView(Fixed()), batch, {}), 1.0)


def test_the_glossary_holds_each_word_once():
    headings = re.findall(r"^\*\*.*\*\*$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [word.strip("* ").lower() for heading in headings for word in heading.split(", ")]
    assert len(words) > 80
    assert {word for word in words if words.count(word) > 1} == set()
