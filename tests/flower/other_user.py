"""Work done as another user of this machine, where the tests may become one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import pytest

NOBODY = 65534

needs_another_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)


def as_another_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns to a user who owns nothing here."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(60) else None
    finally:
        process.join(10)
        process.kill()


def _work(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    pipe.send(function(*arguments))
