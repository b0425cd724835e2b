from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from potluck import DataError
from potluck.ingestion.images import ImageFolder


def folder(tmp_path, size=(4, 6)):
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / label / "more").mkdir(parents=True)
        for number in range(2):
            pixels = random.integers(0, 256, (*size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / label / ("more" if number else "") / f"{number}.png")
        (tmp_path / label / "notes.txt").write_text("no image")
    return tmp_path


def test_images_are_bytes_with_the_channels_first_and_the_folder_is_the_label(tmp_path):
    images = ImageFolder(folder(tmp_path))
    assert [images[number][1] for number in range(len(images))] == ["cat", "cat", "dog", "dog"]
    pixels, _ = images[0]
    expected = np.moveaxis(np.array(Image.open(tmp_path / "cat" / "0.png")), 2, 0)
    assert torch.equal(pixels, torch.from_numpy(expected))
    assert (pixels.dtype, pixels.shape) == (torch.uint8, (3, 4, 6))


def test_they_can_be_brought_to_one_size_and_to_grey(tmp_path):
    assert ImageFolder(folder(tmp_path), size=(2, 3), mode="L")[0][0].shape == (1, 2, 3)


def test_what_holds_no_images_is_told(tmp_path):
    with pytest.raises(DataError, match=r"There is no folder '.*nowhere'"):
        ImageFolder(tmp_path / "nowhere")
    (tmp_path / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"holds no images in folders; expected a folder for each label"):
        ImageFolder(tmp_path)


def test_a_broken_image_is_named(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"cat/1\.png cannot be read as an image"):
        ImageFolder(tmp_path)[0]
