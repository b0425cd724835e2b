"""Lets a run file name what lies beside it: ``mine:build`` is ``build`` in the ``mine.py`` of its folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from potluck.core.errors import SettingsError

_PATH = re.compile(r"([A-Za-z_]\w*)[\w.]*:[A-Za-z_][\w.]*")


def look_beside(folder: Path, content: Any) -> None:
    """Has modules looked for in the folder first, then in the working directory, then where Python looks.

    A module of the same name from another folder stays in use for as long as Python runs, so that one is an error.
    """
    for place in (str(Path.cwd()), str(folder.resolve())):
        if place in sys.path:
            sys.path.remove(place)
        sys.path.insert(0, place)
    for name in sorted({match[1] for text in _texts(content) if (match := _PATH.fullmatch(text))}):
        ours = [path for path in (folder / f"{name}.py", folder / name / "__init__.py") if path.is_file()]
        used = getattr(sys.modules.get(name), "__file__", None)
        if ours and used and Path(used).resolve() != ours[0].resolve():
            raise SettingsError(
                f"{name!r} is in use from {used}, and {ours[0]} cannot take its place; rename it, "
                f"or start Python again."
            )


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for item in content.values() if isinstance(content, dict) else content:
            yield from _texts(item)
