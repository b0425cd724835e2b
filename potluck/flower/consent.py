"""What an invitation asks for, in words; what of it is imported here; and what the owner has agreed to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

import potluck
from potluck.channel.channel import Audit, Channel
from potluck.channel.codecs import CODECS
from potluck.channel.limits import Limits
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.harmless import one_line
from potluck.core.registry import importing_only
from potluck.core.settings import mistakes
from potluck.federation.method import Method
from potluck.flower.protocol import Invitation
from potluck.methods import METHODS
from potluck.models import MODELS
from potluck.recipes.channel_section import ChannelSection

MOST_TEXT = 20_000
"""How many characters an owner is asked to read."""

AskOwner = Callable[[str, bool], str | None]
"""Shows the owner a text, and asks unless the owner has agreed to it before: None for yes, or why not."""


class Consent:
    """Has the owner agree once to each text of terms, and remembers it.

    Args:
        path: a file for what was agreed to.
        ask: shows the owner the text, and asks.
        own_public: whether the owner has a copy of the public data.
        server: whom the owner deals with: the server's address, and the authority that vouches for it. What was agreed
            to holds for that server, that federation and that text. By default nothing is known of it.
    """

    def __init__(self, path: Path, ask: AskOwner, own_public: bool, server: str = "") -> None:
        self._path, self._ask, self._own_public, self._server = path, ask, own_public, server

    def __call__(self, invitation: Invitation, method: type[Method]) -> str | None:
        """None if the owner agrees, or why not."""
        text = consent_text(invitation, method, self._own_public)
        bound = json.dumps([self._server, invitation.federation, text])
        digest, agreed = hashlib.sha256(bound.encode()).hexdigest(), self._agreed()
        refused = self._ask(text, digest in agreed)
        if refused is None and digest not in agreed:
            self._path.write_text(json.dumps({"agreed": [*agreed, digest]}))
        return refused

    def _agreed(self) -> list[str]:
        return list(json.loads(self._path.read_text())["agreed"]) if self._path.exists() else []


def sent_settings(method: Method) -> dict[str, Any]:
    """A method's settings as they travel. Those that are code cannot."""
    settings: dict[str, Any] = method.model_dump(mode="json", fallback=_no_code)
    return settings


def _no_code(value: Any) -> Any:
    raise SettingsError(
        f"The setting {value!r} is code, which is not sent; name it as 'package.module:name', where both sides have it."
    )


def method_class(invitation: Invitation, allow_imports: Collection[str] = ()) -> type[Method]:
    """The class of method that an invitation names, whose settings are not read yet but for the names in them.

    A server must not choose what is imported on a participant's machine. A name is potluck's own, or one of the
    choices that the method's settings list, or stands character by character in ``allow_imports``; else it is declined.
    Which names a setting would import is not guessed from how they look.
    """
    own = METHODS.builtin(invitation.method)
    if not own:
        _check_name(invitation.method, allow_imports)
    with importing_only(allow_imports):
        kind = METHODS[invitation.method]
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise PotluckError(f"the server names {invitation.method!r}, which is no method")
    known = {*allow_imports, *_words(kind)}
    for value in invitation.settings.values():
        for text in _texts(value):
            if not (own and MODELS.builtin(text)):
                _check_name(text, known)
    return kind


def _check_name(name: str, known: Collection[str]) -> None:
    if name not in known:
        raise PotluckError(
            f"the server names {name[:200]!r}, which is not potluck's own; if it is code that you trust, add it to "
            f"`allow_imports`"
        )


def method_of(invitation: Invitation, allow_imports: Collection[str] = ()) -> Method:
    """The method that an invitation names, with its settings, if it is the same here."""
    kind = method_class(invitation, allow_imports)
    try:
        with importing_only(allow_imports):
            method = kind(**invitation.settings)
    except PotluckError as error:
        raise PotluckError(
            f"the server's {invitation.method} (potluck {invitation.potluck}) is not the one here "
            f"(potluck {potluck.__version__}): {error}"
        ) from error
    own, theirs = sent_settings(method), invitation.settings
    if own != theirs:
        odd = sorted(name for name in {*own, *theirs} if own.get(name) != theirs.get(name))
        raise PotluckError(
            f"the settings of {invitation.method} differ between the server (potluck {invitation.potluck}) and here "
            f"(potluck {potluck.__version__}): {', '.join(odd)}; install the same version on both sides"
        )
    return method


def channel_of(invitation: Invitation, allow_imports: Collection[str], limits: Limits, audit: Audit | None) -> Channel:
    """The channel that an invitation names. A codec's name is potluck's own, or stands in ``allow_imports``."""
    channel = invitation.channel or {}
    for text in _texts(channel):
        if not CODECS.builtin(text) and ":" in text:
            _check_name(text, allow_imports)
    try:
        with importing_only(allow_imports):
            return ChannelSection.model_validate(channel).build(limits, audit)
    except ValidationError as error:
        wrong = "; ".join(text for _, text in mistakes(ChannelSection, error))
        raise PotluckError(
            f"the server's codecs (potluck {invitation.potluck}) cannot be used here (potluck {potluck.__version__}): "
            f"{wrong}"
        ) from error


def consent_text(invitation: Invitation, method: type[Method], own_public: bool) -> str:
    """What a participant's owner agrees to."""
    settings = ", ".join(f"{name}={value!r}" for name, value in invitation.settings.items())
    sent = method.described_exchanges()
    asked = method.model_construct(**invitation.settings)  # nothing that settings name is imported before consent
    measured = "your model" + "".join(f" and of its {name} model" for name in asked.reported())
    lines = [
        f"The server asks you to take part in {method.__name__} ({settings}), {invitation.rounds} rounds.",
        "",
        "Your machine will send:",
        "- its name, its task with the labels it tells apart, and the shape of its inputs, at joining",
        *(f"- {what} ({name})" for name, what in sent.items()),
        f"- the metrics of {measured} on your test data, after each round: accuracy, loss, macro F1 and balanced "
        "accuracy, or those of your task",
        "- how many seconds it worked, and if something goes wrong, the kind of error",
        *(f"- {line}" for line in _coding(invitation.channel or {})),
        "Your data, your model's code and your plan stay here"
        + (", and so do its weights." if not _shares_weights(sent) else "."),
    ]
    if invitation.public is not None:
        how = "your copy is compared with it" if own_public else "it is fetched from the server, once"
        lines += ["", f"Public data: {invitation.public.source}, {invitation.public.count} samples; {how}."]
        lines += [f"SHA-256 {invitation.public.sha256}"]
    text = "\n".join(map(one_line, lines))
    if len(text) > MOST_TEXT:
        raise PotluckError(
            f"the server's terms take {len(text)} characters; nobody reads more than {MOST_TEXT}, and what is not read "
            f"is not agreed to"
        )
    return text


def _coding(channel: dict[str, Any]) -> Iterator[str]:
    """How payloads are coded, in words, as the invitation says it."""
    for exchange, own in [("everything", channel), *channel.get("exchanges", {}).items()]:
        for way, what in (("up", "you send"), ("down", "you receive")):
            codecs = own.get(way)
            if codecs or (codecs is not None and own is not channel):
                chain = ", then ".join(f"{codec['name']} {codec['settings'] or ''}".strip() for codec in codecs)
                named = "everything" if own is channel else f"the payload {exchange}"
                yield f"{named} that {what} is coded by {chain or 'nothing'}"


def _shares_weights(sent: dict[str, str]) -> bool:
    return any("weight" in what for what in sent.values()) or "the method does not say what" in sent.values()


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for item in [*content, *content.values()] if isinstance(content, dict) else content:
            yield from _texts(item)


def _words(annotation: Any) -> Iterator[str]:
    """What settings of a type may say without naming code: the names of settings, and listed choices."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, setting in annotation.model_fields.items():
            yield name
            yield from _words(setting.annotation)
    elif get_origin(annotation) is Literal:
        yield from (choice for choice in get_args(annotation) if isinstance(choice, str))
    else:
        for part in get_args(annotation):
            yield from _words(part)
