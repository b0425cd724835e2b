"""Shakespeare by speaker: from a text of speeches to rows of characters and the one that follows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from potluck.core.errors import DataError
from potluck.data.sampling import at_least
from potluck.data.sets.catalog import SHAKESPEARE
from potluck.data.sets.published import Download, Files, open_set
from potluck.data.sets.subset import some_groups
from potluck.data.source import Source

TEST_SHARE = 0.2
"""The share of each speaker's text, at its end, that is for tests."""


def shakespeare(
    speakers: int | None = None,
    length: int = 80,
    step: int = 10,
    min_characters: int = 2000,
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: Download = False,
) -> Source:
    """Shakespeare: 80 characters, and the one that follows, in groups by speaker.

    Inputs are the bytes of characters, labels those of the next one, as the models "char_lstm" and "transformer" read
    them. The last fifth of what each speaker says is for tests; no row reaches from one part into the other.

    Args:
        speakers: how many speakers, drawn; by default all that say enough.
        length: how many characters a row has; by default 80, as in LEAF.
        step: how many characters further on the next row begins; by default 10, so that nine of ten characters of a row
            are in the next one, too.
        min_characters: how much a speaker says at least; by default 2,000 characters.
        seed: what the choice of speakers derives from; by default 0.
        data_dir: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        download: whether it is downloaded if it is not there; by default False.
    """
    at_least(1, length=length, step=step)

    def read(files: Files) -> Source:
        text = next(iter(files.values())).decode("utf-8", "replace")
        spoken = {who: said for who, said in speeches(text).items() if len(said) >= max(min_characters, 2 * length)}
        if not spoken:
            raise DataError(
                f"shakespeare: nobody says {min_characters} characters; expected paragraphs with an empty line between "
                f"them, each with its speaker and a colon in its first line."
            )
        halves = {who: int(len(said) * (1 - TEST_SHARE)) for who, said in spoken.items()}
        train = {who: _rows(said[: halves[who]], length, step) for who, said in spoken.items()}
        test = {who: _rows(said[halves[who] :], length, step) for who, said in spoken.items()}
        (x, y, groups), (x_test, y_test, groups_test) = (
            (
                np.concatenate([rows[:, :-1] for rows in part.values()]).astype(np.int64),
                np.concatenate([rows[:, -1] for rows in part.values()]).astype(np.int64),
                np.repeat(list(part), [len(rows) for rows in part.values()]),
            )
            for part in (train, test)
        )
        known = np.isin(y_test, y)
        return Source("shakespeare", x, y, x_test[known], y_test[known], groups=groups, groups_test=groups_test[known])

    return some_groups(open_set(SHAKESPEARE, read, data_dir, download), speakers, 1, seed, "speakers")


def speeches(text: str) -> dict[str, bytes]:
    """Speaker → all that he or she says, in the order of the text."""
    found: dict[str, list[str]] = {}
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        who, _, said = paragraph.strip("\n").partition(":\n")
        if said and "\n" not in who:
            found.setdefault(who, []).append(said)
    return {who: "\n".join(said).encode() for who, said in found.items()}


def _rows(said: bytes, length: int, step: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Windows of a text, each with the character after it as its last column."""
    characters = np.frombuffer(said, np.uint8)
    if len(characters) <= length:
        return np.empty((0, length + 1), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(characters, length + 1)[::step]
