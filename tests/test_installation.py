"""What is installed is what is needed: imports are declared, and a wheel works outside of the project's folder."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("potluck", "docs", "examples", "benchmarks", "evidence")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BROUGHT = {"transformers"}
"""Extras for networks that users bring: nothing of Potluck's own imports them."""
APART = {"torchvision"}
"""Distributions of their module's name that tests do without: the package index has it for another build of torch."""


def imported(code: str) -> Iterator[str]:
    """The modules that code imports, wherever the import stands in it, also by ``import_module("name")``.

    And those that a tracker says it ``NEEDS``, some of which others import for it.
    """
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(name.value) for name in node.args if isinstance(name, ast.Constant))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NEEDS":
            yield from ast.literal_eval(node.value)


def normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared(requirements: list[str]) -> set[str]:
    return {normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in requirements}


def test_imports_are_found_wherever_they_stand():
    inner = "def h():\n    import i\n    x = importlib.import_module('j.k')\n    NEEDS = ('m', 'n')"
    code = f"import a.b, c\nfrom d.e import f\nfrom . import g\n{inner}"
    assert sorted(imported(code)) == ["a.b", "c", "d.e", "i", "j.k", "m", "n"]
    assert declared(["Some_Thing[extra]>=1,<2", "other"]) == {"some-thing", "other"}


def test_every_distribution_that_is_imported_is_declared_and_no_other():
    extras = PROJECT["optional-dependencies"]
    asked = declared(PROJECT["dependencies"]).union(*(declared(extras[name]) for name in extras.keys() - {"dev"}))
    modules = {
        name.split(".")[0] for path in (ROOT / "potluck").rglob("*.py") for name in imported(path.read_text())
    } - {*sys.stdlib_module_names, "potluck"}
    known = packages_distributions()
    assert modules >= APART
    assert not modules - known.keys() - APART, "not installed here, so nobody can say which distribution brings it"
    assert {normalized(name) for module in modules - APART for name in known[module]} == asked - BROUGHT - APART


def test_nothing_installs_another_projects_distribution():
    """The name `potluck` on the package index is not this project's."""
    assert PROJECT["name"] == "potluck-fl"
    texts = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml")
    ]
    for path in (*texts, *(ROOT / "deploy").iterdir(), *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"):
        assert not re.search(r"pip install (-\S+ )*['\"]?potluck\b(?!-fl)|potluck\[", path.read_text()), path


def copied(folder: Path) -> Path:
    """What a distribution is made from."""
    shutil.copytree(ROOT / "potluck", folder / "potluck", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]):
        shutil.copy(ROOT / name, folder)
    return folder


def test_the_version_is_the_same_wherever_it_stands():
    version = PROJECT["version"]
    assert re.search(rf"^version: {re.escape(version)}$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert f"potluck_fl-{version}-py3" in (ROOT / "docs" / "deployment.md").read_text()


@pytest.mark.slow
def test_what_is_built_can_be_published(tmp_path):
    """A source distribution, and from it a wheel."""
    source, built = copied(tmp_path / "source"), tmp_path / "dist"
    for arguments in (["build", "--outdir", built, source], ["twine", "check", "--strict", f"{built}/*"]):
        done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    name = f"potluck_fl-{PROJECT['version']}"
    assert {path.name for path in built.iterdir()} == {f"{name}.tar.gz", f"{name}-py3-none-any.whl"}
    with zipfile.ZipFile(built / f"{name}-py3-none-any.whl") as wheel:
        packed = set(wheel.namelist())
    everything = (path for path in (ROOT / "potluck").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert {path.relative_to(ROOT).as_posix() for path in everything} <= packed


PYTHONS = [sys.executable, "python3.12", "python3.13"]


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS, ids=["this one", *PYTHONS[1:]])
def test_a_wheel_works_in_a_fresh_environment(python, tmp_path):
    """With the newest versions that the declared ranges allow; only torch is pinned, since a plain one brings CUDA."""
    if shutil.which(python) is None:
        pytest.skip(f"{python} is not here")
    source, empty = copied(tmp_path / "source"), tmp_path / "empty"
    empty.mkdir()
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)

    def run(command: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / command, *arguments], cwd=empty, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    (torch,) = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.M)
    run("pip", "install", "--quiet", torch)
    run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source)
    (wheel,) = tmp_path.glob("*.whl")
    run("pip", "install", "--quiet", wheel)
    run("pip", "check")
    assert "demo" in run("potluck", "--help")
    assert "alone" in run("potluck", "demo")
    assert (empty / "demo" / "index.html").is_file()
    assert str(tmp_path / "venv") in run("python", "-c", "import potluck; print(potluck.__file__)")
