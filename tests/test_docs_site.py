"""The site of the documentation: every page is in its contents, and it is built whole, offline, without a warning."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from potluck.cli import app
from potluck.recipes import Recipe
from potluck.recipes.references import Named
from tests.browser import SCHEMES, WIDTHS, browser, needs_browser, violations

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture
def extension(monkeypatch):
    """Imports one of the site's own extensions by its name."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))

    def load(name: str) -> Any:
        return importlib.import_module(name)

    return load


def test_a_page_in_a_folder_belongs_to_the_page_of_that_name():
    for folder in (path for path in DOCS.iterdir() if path.is_dir() and list(path.glob("*.md"))):
        assert (DOCS / f"{folder.name}.md").exists(), folder


def test_contents_are_read_from_lists(extension):
    text = "# T\n\n## One\n\n- [A](a.md): x [again](a.md#b).\n- [B](../b.md)\n\n## Two\n\n- [A](a.md), [C](c.ipynb)\n"
    assert extension("pages").contents(text) == {"One": ["a", "../b"], "Two": ["c"]}


def test_diagrams_are_drawn_with_all_they_say(extension):
    diagrams = extension("sequence_diagrams")
    (one, other) = re.findall(r"^```mermaid\n(.*?)^```$", (DOCS / "architecture.md").read_text(), re.M | re.S)
    for text in (one, other):
        people, messages = diagrams.read(text)
        drawn = diagrams.draw(text)
        assert len(people) + len(messages) == len(text.strip().splitlines()) - 1
        assert drawn.count("<text") == len(people) + len(messages)
        assert drawn.count("stroke-dasharray") == sum(answer for *_, answer, _ in messages)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("flowchart LR\n  a --> b", "expected a sequenceDiagram"),
        ("sequenceDiagram\n  participant A as a\n  Note over A: x", "'Note over A: x': expected a participant"),
        ("sequenceDiagram\n  participant A as a\n  A->>B: x", "no participant is B"),
    ],
)
def test_diagrams_of_another_kind_are_refused(extension, text, wrong):
    with pytest.raises(ValueError, match=wrong):
        extension("sequence_diagrams").draw(text)


def test_every_command_is_in_the_reference_with_every_option(extension):
    found = dict(extension("reference").commands())
    assert {f"potluck {name}" for name in typer.main.get_command(app).commands} == set(found)
    run = "\n".join(found["potluck run"])
    assert "potluck run [OPTIONS] FILE" in run
    for option in ("``--set KEY=VALUE``", "``--resume``", "``--data-dir FOLDER``", "``--rounds INTEGER``"):
        assert option in run
    assert "(by default runs/FILE-SEED)" in run
    assert "original\\|hub" not in "\n".join(found["potluck download"])
    assert "``--from original|hub``" in "\n".join(found["potluck download"])


def keys_told():
    marks = re.findall(r"^<!-- keys ([\w.]+):(\w+) -->$", (DOCS / "keys.md").read_text(), re.M)
    return [getattr(importlib.import_module(module), name) for module, name in marks]


@pytest.mark.parametrize("kind", keys_told(), ids=lambda kind: kind.__name__)
def test_every_key_is_told_by_its_class(extension, kind):
    told = extension("reference").described(kind)
    assert [name for name in kind.model_fields if not told.get(name)] == []
    assert set(told) <= set(kind.model_fields), "nothing is told of a key that is none"


def test_every_section_of_a_run_file_has_its_keys_told():
    """Those that are tables of their own; what has a name and settings is told by `potluck methods` and the like."""

    def sections(kind, seen):
        if not (inspect.isclass(kind) and issubclass(kind, BaseModel)):
            for inner in typing.get_args(kind):
                sections(inner, seen)
        elif kind not in seen and not issubclass(kind, Named):
            seen.add(kind)
            for field in kind.model_fields.values():
                sections(field.annotation, seen)
        return seen

    assert sections(Recipe, set()) - set(keys_told()) == set()


@pytest.mark.parametrize("module", ["potluck", "potluck.data", "potluck.methods", "potluck.models"])
def test_everything_public_is_in_the_reference_and_says_what_it_is(extension, module):
    found = dict(extension("reference").public(module))
    offered = importlib.import_module(module)
    modules = {name for name in offered.__all__ if inspect.ismodule(getattr(offered, name))}
    assert set(found) == set(offered.__all__) - modules
    assert [name for name in found if not inspect.getdoc(getattr(offered, name))] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built without a warning."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "-d", f"{folder}/trees"]
    done = subprocess.run([*command, ".", f"{folder}/site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(site):
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert "docs/index.html" in pages["index.html"]
    assert {f"docs/{page.stem}.html" for page in DOCS.glob("*.md")} <= set(pages)
    assert "<svg" in pages["docs/architecture.html"]
    for name, page in pages.items():
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"(https?:[^\"]*)", page)
        loaded += re.findall(r"<link[^>]*rel=\"(?:stylesheet|preload|icon)\"[^>]*href=\"(https?:[^\"]*)", page)
        assert loaded == [], name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import [\"']https?:", style.read_text()), style


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_can_be_read_on_a_phone_by_keyboard_and_read_out(site, width, scheme):
    """Nothing that axe calls serious, and no page that scrolls sideways as a whole."""
    with browser() as opened:
        page = opened.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        for name in ("index", "start", "methods", "architecture", "keys"):
            page.goto((site / "docs" / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert [found for found in violations(page) if found[1] in ("serious", "critical")] == [], name
