"""The commit is Potluck's own, and never that of a repository around it."""

from __future__ import annotations

import subprocess

import pytest

from potluck.runs import provenance


def git(folder, *words):
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A repository with a package, of which one module asks for the commit."""
    folder = tmp_path / "package" / "inside"
    folder.mkdir(parents=True)
    (folder / "module.py").write_text("x = 1\n")
    git(tmp_path, "init", "--quiet")
    monkeypatch.setattr(provenance, "HERE", folder / "module.py")
    provenance.commit.cache_clear()
    yield tmp_path
    provenance.commit.cache_clear()


def test_a_changed_source_is_marked(source):
    git(source, "add", ".")
    git(source, "commit", "--quiet", "-m", "first")
    assert provenance.commit() == git(source, "rev-parse", "HEAD")
    (source / "package/inside/module.py").write_text("x = 2\n")
    assert provenance.commit() == git(source, "rev-parse", "HEAD"), "asked once for each process"
    provenance.commit.cache_clear()
    assert provenance.commit() == git(source, "rev-parse", "HEAD") + "+"


def test_an_environment_inside_of_another_repository_has_no_commit(source):
    (source / "own.txt").write_text("somebody else's")
    git(source, "add", "own.txt")
    git(source, "commit", "--quiet", "-m", "first")
    assert provenance.commit() is None


def test_without_git_there_is_none(source, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance.commit() is None
