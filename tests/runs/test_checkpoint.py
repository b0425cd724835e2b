"""Checkpoints: which formats are read."""

from __future__ import annotations

import json

import pytest
import torch

from potluck.runs import checkpoint
from potluck.runs.checkpoint import CheckpointError

FINGERPRINT = {"method": "a"}


def written(folder, format: object):
    """A checkpoint as it would be with another number of its format, with checksums that are right."""
    checkpoint.write(folder, 4, {"weights": torch.ones(2)}, FINGERPRINT)
    path = folder / "round-00000004" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["own sha256"]
    manifest["format"] = format
    path.write_text(json.dumps({**manifest, "own sha256": checkpoint._digest(manifest)}))
    return folder


def test_this_versions_format_is_read(tmp_path):
    round, state = checkpoint.read_newest(written(tmp_path, checkpoint.FORMAT), FINGERPRINT)
    assert round == 4
    assert state["weights"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("format", "advice"),
    [(2, "Potluck at commit d526047, of version 0.1.0, reads format 2"), (99, "the version that wrote it")],
)
def test_another_format_is_refused_by_its_number(format, advice, tmp_path):
    with pytest.raises(CheckpointError, match=rf"has format {format}; .* reads format 3 only.*{advice}"):
        checkpoint.read_newest(written(tmp_path, format), FINGERPRINT)
    assert (tmp_path / "round-00000004").is_dir()  # set aside only what is damaged
