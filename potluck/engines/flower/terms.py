"""The terms of an invitation: which method, with which settings, and what a participant will send, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import potluck
from potluck.engines.flower.letters import Invitation
from potluck.errors import PotluckError, SettingsError
from potluck.method import Method
from potluck.methods import METHODS

_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def settings_of(method: Method) -> dict[str, Any]:
    """A method's settings as they travel. Those that are code cannot."""
    settings: dict[str, Any] = method.model_dump(mode="json", fallback=_no_code)
    return settings


def _no_code(value: Any) -> Any:
    raise SettingsError(
        f"The setting {value!r} is code, which is not sent; name it as 'package.module:name', where both sides have it."
    )


def method_of(invitation: Invitation, allowed: tuple[str, ...] = ()) -> Method:
    """The method that an invitation names, if it is the same here.

    A server must not choose what is imported on a participant's machine: what it names as code must be in ``allowed``.
    """
    named = [invitation.method, *_texts(invitation.settings)]
    for text in named:
        if _CODE.fullmatch(text) and text not in allowed:
            raise PotluckError(f"the server names {text!r}, which is code; add it to `allow` if you trust it")
    try:
        method: Method = METHODS[invitation.method](**invitation.settings)
    except PotluckError as error:
        raise PotluckError(
            f"the server's {invitation.method} (potluck {invitation.potluck}) is not the one here "
            f"(potluck {potluck.__version__}): {error}"
        ) from error
    own, theirs = settings_of(method), invitation.settings
    if own != theirs:
        odd = sorted(name for name in {*own, *theirs} if own.get(name) != theirs.get(name))
        raise PotluckError(
            f"the settings of {invitation.method} differ between the server (potluck {invitation.potluck}) and here "
            f"(potluck {potluck.__version__}): {', '.join(odd)}; install the same version on both sides"
        )
    return method


def consent_text(invitation: Invitation, method: Method, own_public: bool) -> str:
    """What a participant's owner agrees to."""
    settings = ", ".join(f"{name}={value!r}" for name, value in invitation.settings.items())
    sent = method.described_exchanges()
    lines = [
        f"The server asks you to take part in {type(method).__name__} ({settings}), {invitation.rounds} rounds.",
        "",
        "Your machine will send:",
        "- its name, the labels it tells apart, and the shape of its inputs, at joining",
        *(f"- {what} ({name})" for name, what in sent.items()),
        "- accuracy, loss, macro F1 and balanced accuracy of your model on your test data, after each round",
        "- how many seconds it worked, and if something goes wrong, the kind of error",
        "Your data, your model's code and your plan stay here"
        + (", and so do its weights." if not _shares_weights(sent) else "."),
    ]
    if invitation.public is not None:
        how = "your copy is compared with it" if own_public else "it is fetched from the server, once"
        lines += ["", f"Public data: {invitation.public.source}, {invitation.public.count} samples; {how}."]
        lines += [f"SHA-256 {invitation.public.sha256}"]
    return "\n".join(lines)


def _shares_weights(sent: dict[str, str]) -> bool:
    return any("weight" in what for what in sent.values()) or "the method does not say what" in sent.values()


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for item in [*content, *content.values()] if isinstance(content, dict) else content:
            yield from _texts(item)
