"""A folder of images, one folder for each label, read image by image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from potluck.core.errors import DataError, SettingsError, how_to_install

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
"""The endings of the files that are read as images; others are left out."""


class ImageFolder(Dataset[tuple[Tensor, str]]):
    """Images in folders that bear their labels: ``root/cat/1.png``. Items are bytes, channels first, and the label.

    Args:
        root: the folder.
        size: height and width that all images are brought to; by default None, for those they have.
        mode: "RGB" (the default), "L" for shades of grey, or another of Pillow's modes.
    """

    def __init__(self, root: str | Path, size: tuple[int, int] | None = None, mode: str = "RGB") -> None:
        self.root, self.size, self.mode = Path(root).expanduser(), size, mode
        if not self.root.is_dir():
            raise DataError(f"There is no folder {str(self.root)!r} (looked for {self.root.absolute()}).")
        labels = sorted(folder for folder in self.root.iterdir() if folder.is_dir())
        files = [path for label in labels for path in sorted(label.rglob("*"))]
        self.files = [path for path in files if path.suffix.lower() in SUFFIXES]
        if not self.files:
            raise DataError(
                f"{str(self.root)!r} holds no images in folders; expected a folder for each label, with files that end "
                f"in {', '.join(SUFFIXES)}: {self.root.name}/cat/1.png."
            )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        path = self.files[index]
        return self._read(path), path.relative_to(self.root).parts[0]

    def _read(self, path: Path) -> Tensor:
        try:
            from PIL import Image, UnidentifiedImageError
        except ImportError as error:
            raise SettingsError(f"Images are read with Pillow: {how_to_install('images')}") from error
        try:
            with Image.open(path) as image:
                found = image.convert(self.mode)
                if self.size is not None:
                    found = found.resize(self.size[::-1])
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(f"{path} cannot be read as an image: {error}.") from error
        pixels = np.array(found)
        return torch.from_numpy(pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(np.moveaxis(pixels, 2, 0)))
