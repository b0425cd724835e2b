"""What runs in Flower's ServerApp: invites the participants of a federation file, and plays the federation."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

import potluck
from potluck.channel.channel import Channel
from potluck.channel.limits import Limits
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.history import Row, readable_bytes
from potluck.core.samples import SharedData
from potluck.engines import pick_device
from potluck.federation.federation import Federation
from potluck.flower.config import FederationFile, public_key, read_federation
from potluck.flower.consent import settings_of
from potluck.flower.engine import Flower, Rules, TooFewError
from potluck.flower.gateway import Post, StoppedError
from potluck.flower.processes import end_with
from potluck.flower.protocol import PROTOCOL, Announcement, Farewell, Invitation
from potluck.flower.public_data import checksum, to_payload
from potluck.flower.remote_participant import Remote

log = logging.getLogger("potluck.federation.server")

GOODBYE = 20.0
"""Seconds that participants have to hear that the federation has ended."""


def serve(grid: Grid, config: Mapping[str, Any]) -> None:
    """Plays the federation that a run's configuration names. What happens goes to the log, and to ``told``."""
    if config.get("server"):
        end_with(int(str(config["server"])))
    told = Told(Path(str(config["told"])) if config.get("told") else None)
    try:
        if not config.get("federation"):
            raise SettingsError("No federation file: `flwr run . -c 'federation=\"/path/to/federation.toml\"'`.")
        path = Path(str(config["federation"]))
        file = read_federation(path)
        out = Path(str(config.get("out") or f"runs/{path.stem}-{file.seed}"))
        Table(grid, file, out, told).play(bool(config.get("resume")))
        told.end("")
    except StoppedError:
        told.end("stopped")
    except PotluckError as error:
        told.end(str(error))
        raise
    except Exception as error:
        told.end(f"a bug, or a broken installation: {type(error).__name__}: {error}. See the log of Flower.")
        raise


class Told:
    """Says what happens: to the log, and to a file that ``potluck serve`` reads; and hears whether to stop."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __call__(self, line: str) -> None:
        log.info("%s", line)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(line.replace("\n", "\n  ") + "\n")

    def end(self, error: str) -> None:
        """The last word: how it ended."""
        if self._path is not None:
            draft = self._path.with_suffix(".draft")
            draft.write_text(json.dumps({"error": error}))
            draft.replace(self._path.with_suffix(".end"))

    def stopped(self) -> bool:
        """Whether ``potluck serve`` was asked to stop."""
        return self._path is not None and self._path.with_suffix(".stop").exists()


class Table:
    """A federation file at work."""

    def __init__(self, grid: Grid, file: FederationFile, out: Path, tell: Told) -> None:
        self.file, self.out, self.tell = file, out, tell
        self.method = file.build_method()
        self.limits = Limits(bytes=file.limit)
        self.shown = None if file.public is None else file.public.load(file.seed)
        shown, public = self._announced(self.shown)
        keep = self.method.keep_optimizer if file.keep_optimizer is None else file.keep_optimizer
        self.invitation = Invitation(
            protocol=PROTOCOL,
            potluck=potluck.__version__,
            federation=_identity(out),
            method=file.method.name,
            settings=settings_of(self.method),
            seed=file.seed,
            keep_optimizer=keep,
            rounds=file.rounds,
            public=shown,
        )
        keys = {seat.name: public_key(seat.key) for seat in file.participants if seat.key is not None}
        self.post = Post(
            grid,
            file.names,
            self.invitation,
            public=public,
            keys=keys if file.keyed else None,
            limits=self.limits,
            tell=tell,
            stopped=tell.stopped,
        )

    def play(self, resume: bool) -> None:
        """Waits for the participants, plays the rounds, says goodbye."""
        if (self.out / "settings.json").exists() and not resume:
            raise SettingsError(f"{self.out} already holds a run. Go on with --resume, or choose another folder.")
        self._wait()
        federation = self._federation()
        self.tell(f"playing {self.file.rounds} rounds of {type(self.method).__name__}; kept in {self.out}")
        federation.run(self.file.rounds, run_dir=self.out, resume=resume, callbacks=[self._told])
        (self.out / "table.txt").write_text(federation.history.table())
        self.post.tell_all(Farewell(rounds=federation.history.rounds).letter(), GOODBYE)

    def _announced(self, shown: SharedData | None) -> tuple[Announcement | None, bytes]:
        """The public data in words, and as they travel."""
        if shown is None or self.file.public is None:
            return None, b""
        payload = to_payload(shown)
        found, expected = checksum(payload), self.file.public.sha256
        if expected not in (None, found):
            raise SettingsError(f"The public data have the SHA-256 {found}; the file says {expected}.")
        told = Announcement(
            source=self.file.public.source.name, sha256=found, labelled=shown.y is not None, count=len(shown.x)
        )
        return told, payload.to_bytes()

    def _wait(self) -> None:
        """Until all have come, or after ``wait`` seconds the minimum."""
        file, post = self.file, self.post
        self.tell(f"waiting for {', '.join(file.names)}")

        def all_here() -> bool:
            away = [name for name in file.names if not post.here(name)]
            refused = [name for name in away if name in post.declined]
            if len(file.names) - len(refused) < file.at_least:
                why = "; ".join(f"{name}: {post.declined[name]}" for name in refused)
                raise TooFewError(f"Too few take part: a round needs {file.at_least}. {why}")
            return len(away) == len(refused)

        post.meet(all_here, file.wait)
        here = [name for name in file.names if post.here(name)]
        if len(here) < file.at_least and file.below_minimum == "wait":
            self.tell(f"{len(here)} are here, {file.at_least} are needed; waiting on")
            post.meet(lambda: sum(map(post.here, file.names)) >= file.at_least, None)
        elif len(here) < file.at_least:
            raise TooFewError(
                f"After {file.wait:g} s {len(here)} participants are here ({', '.join(here) or 'none'}); a round needs "
                f"{file.at_least} (`minimum`)."
            )

    def _federation(self) -> Federation:
        file, guests = self.file, self.post.guests
        like = next(iter(guests.values())).told
        seats = [(seat, guests.get(seat.name)) for seat in file.participants]
        rules = Rules(file.deadline, file.at_least, file.below_minimum == "wait", file.messages, self.limits)
        federation = Federation(
            [Remote(seat.name, seat.weight, guest.told if guest else None, like) for seat, guest in seats],
            self.method,
            public=self.shown,
            seed=file.seed,
            engine=Flower(self.post, pick_device(file.device), rules, self.tell),
            participation=file.participation,
            keep_optimizer=file.keep_optimizer,
            channel=Channel(self.limits),
        )
        federation.made_from = file.model_dump(mode="json", fallback=str, exclude={"tls"})
        return federation

    def _told(self, federation: Federation, rows: list[Row]) -> None:
        number, accuracy = federation.history.rounds, federation.history.final.accuracy
        up, down = (sum(row[way] for row in rows) for way in ("bytes_up", "bytes_down"))
        travelled = f"received {readable_bytes(up)}, sent {readable_bytes(down)}"
        reached = "" if accuracy is None else f", mean accuracy {100 * accuracy:.1f}%"
        self.tell(f"round {number} of {self.file.rounds}: {travelled}{reached}")


def _identity(out: Path) -> str:
    """What participants know a run by: drawn when its folder is made, kept in it."""
    path = out / "federation.json"
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"federation": secrets.token_hex(8), "made": time.strftime("%Y-%m-%dT%H:%M:%S")}))
    return str(json.loads(path.read_text())["federation"])
