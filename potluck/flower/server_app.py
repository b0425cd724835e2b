"""What runs in Flower's ServerApp: invites the participants of a server's file, and runs the federation."""

from __future__ import annotations

import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from flwr.serverapp import Grid
from flwr.superlink.grid import HttpGrid

import potluck
from potluck.channel.audit_log import AuditLog
from potluck.channel.limits import Limits
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.history import Row, readable_bytes
from potluck.core.labels import label_space
from potluck.core.metrics import readable, title
from potluck.core.samples import SharedData
from potluck.engines import pick_device
from potluck.federation.federation import Federation
from potluck.flower.acceptance import Acceptance
from potluck.flower.bell import Bell
from potluck.flower.certificates import fingerprint, fingerprint_of, public_half, sealing
from potluck.flower.config import FederationFile, read_federation
from potluck.flower.consent import sent_settings
from potluck.flower.control import CONTROL_FILE, Control
from potluck.flower.engine import Flower, Rules, TooFewError
from potluck.flower.gateway import Gateway, StoppedError
from potluck.flower.guarded_grid import guard
from potluck.flower.key_folder import RevokedKeys
from potluck.flower.processes import end_with
from potluck.flower.progress import ProgressLog
from potluck.flower.protocol import MAX_HEAD_BYTES, PROTOCOL, Finished, HowEnded, Invitation, Paused, PublicDataInfo
from potluck.flower.public_data import checksum, to_payload
from potluck.flower.remote_participant import RemoteParticipant
from potluck.flower.site_state import note_invitation
from potluck.flower.status import STATUS_FILE, ParticipantStatus, Status, StatusBoard
from potluck.recipes.callback_sections import trackers_of
from potluck.runs.callbacks import Callback, RoundFunction

ATTEMPTS = 3
"""How often a round that ended with too few is played again."""
FINISH_TIMEOUT = 20.0
"""Seconds that participants have to hear that the federation has ended."""
STOP_TIMEOUT = 5.0
"""Seconds that they have to hear that the server was stopped."""
ROUNDS_TIMED = 10
"""By how many rounds it is told how long the rest takes."""
STOP_WISHED = "those who run it stopped it"


class StopWishedError(PotluckError):
    """Those who run the federation wish that it stops."""


def serve(grid: Grid, config: Mapping[str, Any]) -> None:
    """Runs the federation that a run's configuration names. What happens is written to its ``progress`` file."""
    if config.get("server"):
        end_with(int(str(config["server"])))
    progress = ProgressLog(Path(str(config["progress"])) if config.get("progress") else None)
    try:
        if not config.get("federation"):
            raise SettingsError("No server's file: `flwr run . -c 'federation=\"/path/to/server.toml\"'`.")
        path = Path(str(config["federation"]))
        file = read_federation(path)
        out = Path(str(config.get("out") or f"runs/{path.stem}-{file.seed}"))
        bell = Bell(Path(str(config["bells"]))) if config.get("bells") else None
        ServerRun(grid, file, out, progress, bell).run(bool(config.get("resume")))
        progress.finish("")
    except StoppedError:
        progress.finish("stopped")
    except PotluckError as error:
        progress.finish(str(error))
        raise
    except Exception as error:
        progress.finish(f"a bug, or a broken installation: {type(error).__name__}: {error}. See the log of Flower.")
        raise


class ServerRun:
    """The run of a server's file.

    Args:
        grid: Flower's grid.
        file: the server's file.
        out: the run folder.
        progress: where it says what happens, and hears whether to stop.
        bell: tells which messages have been answered; None where nobody rings it.
    """

    def __init__(
        self, grid: Grid, file: FederationFile, out: Path, progress: ProgressLog, bell: Bell | None = None
    ) -> None:
        self.file, self.out, self._progress = file, out, progress
        self.method = file.build_method()
        self.limits = Limits(bytes=file.max_payload_bytes)
        if isinstance(grid, HttpGrid):
            guard(grid, file.max_payload_bytes + MAX_HEAD_BYTES)
        self.public = None if file.public is None else file.public.load(file.seed)
        self._acceptance = Acceptance(
            self.method.requires(),
            None if self.public is None else self.public.inputs.kinds,
            None if file.labels is None else label_space(file.labels, "the federation's file"),
        )
        key = None if file.tls is None else file.tls.key
        self._audit_log = AuditLog(out / "audit.jsonl", "the server", sealing(key))
        known = {name: fingerprint_of(public) for name, public in (file.keys or {}).items()}
        self._audit_log.note(
            "opened", potluck=potluck.__version__, key=None if key is None else fingerprint(key), keys=known or None
        )
        self._control = Control(out / "flower" / CONTROL_FILE)
        self._seconds: deque[float] = deque(maxlen=ROUNDS_TIMED)
        """How long the last rounds took."""
        self._round_began = time.monotonic()
        now = time.time()
        first = Status(
            state="waiting",
            since=now,
            study=out.name,
            method=type(self.method).__name__,
            rounds=file.rounds,
            participants=[ParticipantStatus(name=name, state="expected", since=now) for name in file.names],
        )
        self.board = StatusBoard(out / "flower" / STATUS_FILE, first)
        info, public_bytes = self._public_info(self.public)
        keep = self.method.keep_optimizer if file.keep_optimizer is None else file.keep_optimizer
        invitation = Invitation(
            protocol=PROTOCOL,
            potluck=potluck.__version__,
            federation=_identity(out),
            method=file.method.name,
            settings=sent_settings(self.method),
            seed=file.seed,
            keep_optimizer=keep,
            rounds=file.rounds,
            public=info,
            min_participants=file.required_participants,
            max_payload_bytes=file.max_payload_bytes,
            channel=file.channel.spelled_out().model_dump(mode="json") if not file.channel.is_empty else None,
        )
        self.gateway = Gateway(
            grid,
            file.names,
            invitation,
            public=public_bytes,
            keys=file.keys,
            limits=self.limits,
            report=progress.report,
            stopped=progress.stop_requested,
            check=self._acceptance.check,
            audit_log=self._audit_log,
            bell=bell,
            board=self.board,
            shut_out=self._shut_out(),
        )
        if (out / "flower").is_dir():  # where the public port of `potluck serve` looks for it
            note_invitation(out / "flower", invitation)

    def _shut_out(self) -> Callable[[], list[str]]:
        """Whose keys have been revoked by now."""
        keys = {entry.name: Path(entry.key) for entry in self.file.participants if entry.key is not None}
        marks = {name: fingerprint_of(public_half(str(path))) for name, path in keys.items()}
        revoked = RevokedKeys((path.parent for path in keys.values()), self._progress.report)
        return lambda: [name for name, mark in marks.items() if mark in revoked]

    def run(self, resume: bool) -> None:
        """Waits for the participants, runs the rounds, and says how the federation has ended, whatever happens."""
        if (self.out / "settings.json").exists() and not resume:
            raise SettingsError(f"{self.out} already holds a run. Go on with --resume, or choose another folder.")
        self._control.clear()
        try:
            federation = self._wait_and_play(resume)
        except StopWishedError:
            self._end("stopped", STOP_WISHED)
        except StoppedError:
            self._leave("the server was stopped", STOP_TIMEOUT)
            raise
        except TooFewError as error:
            self._leave(str(error), FINISH_TIMEOUT)
            raise
        except Exception as error:
            self._end("failed", f"{type(error).__name__} at the server")
            raise
        else:
            (self.out / "table.txt").write_text(federation.history.table())
            self._end("finished" if federation.stopped is None else "stopped", federation.stopped or "")

    def _wait_and_play(self, resume: bool) -> Federation:
        self._wait()
        self._heed()
        return self._play(resume)

    def _end(self, outcome: HowEnded, why: str) -> None:
        """Tells everybody that the federation has ended, also who is away just now."""
        if why:
            self._progress.report(f"the run is {outcome}: {why}")
        self.board.run(outcome, why)
        message = Finished(rounds=self.board.status.round, outcome=outcome, reason=why).message()
        self.gateway.take_leave(message, FINISH_TIMEOUT)
        self.board.write()

    def _leave(self, why: str, timeout: float) -> None:
        """Tells those who are here that the server goes, and may come back."""
        self.board.run("stopped", why)
        self.gateway.take_leave(Paused(reason=why).message(), timeout, only_connected=True)
        self.board.write()

    def _heed(self) -> None:
        """Goes on, when those who run it wish that; raises StopWishedError if they wish that it stops."""
        if self._control.wish() == "pause" and self.board.status.round < self.file.rounds:
            self._progress.report("pausing; `potluck control RUN go` goes on")
            self.board.run("paused")
            self.gateway.broadcast(Paused(reason="those who run it pause it").message(), FINISH_TIMEOUT)
            self.gateway.wait_until(lambda: self._control.wish() != "pause", None)
            self._progress.report("the pause is over")
            self.board.run("playing")
        if self._control.wish() == "stop":
            raise StopWishedError

    def _play(self, resume: bool) -> Federation:
        """Runs the rounds. Where too few are left, waits for enough, and goes on from the last checkpoint."""
        file, in_vain, at = self.file, 0, -1
        while True:
            federation = self._federation()
            self._progress.report(f"playing {file.rounds} rounds of {type(self.method).__name__}; kept in {self.out}")
            self.board.run("playing")
            self._round_began = time.monotonic()
            try:
                listening: list[Callback | RoundFunction] = [*trackers_of(file.track), self._after_round]
                federation.run(file.rounds, run_dir=self.out, resume=resume, callbacks=listening)
                return federation
            except TooFewError as error:
                in_vain = in_vain + 1 if federation.history.rounds == at else 1
                at = federation.history.rounds
                if file.on_too_few == "fail" or in_vain > ATTEMPTS:
                    raise
                self._progress.report(f"{error} Waiting for them, and then going on, for {file.wait_timeout:g} s.")
                self.board.run("waiting", str(error))
                self._wait_for_minimum(file.wait_timeout)
                resume = (self.out / "settings.json").exists()

    def _wait_for_minimum(self, timeout: float) -> None:
        names, required = self.file.names, self.file.required_participants
        self._wait_until(lambda: sum(map(self.gateway.is_connected, names)) >= required, timeout)
        if (there := sum(map(self.gateway.is_connected, names))) < required:
            raise TooFewError(f"{there} participants are here; a round needs {required} (`min_participants`).")

    def _wait_until(self, enough: Callable[[], bool], timeout: float) -> None:
        """Waits for participants, unless those who run it wish that it stops."""
        self.gateway.wait_until(lambda: self._control.wish() == "stop" or enough(), timeout)
        if self._control.wish() == "stop":
            raise StopWishedError

    def _public_info(self, public: SharedData | None) -> tuple[PublicDataInfo | None, bytes]:
        """What is said of the public data, and the data as they travel."""
        if public is None or self.file.public is None:
            return None, b""
        payload = to_payload(public)
        found, expected = checksum(payload), self.file.public.sha256
        if expected not in (None, found):
            raise SettingsError(f"The public data have the SHA-256 {found}; the file says {expected}.")
        info = PublicDataInfo(
            source=self.file.public.source.name, sha256=found, labelled=public.y is not None, count=len(public.inputs)
        )
        return info, payload.to_bytes()

    def _wait(self) -> None:
        """Until all have come, or after ``join_timeout`` seconds the minimum."""
        file, gateway, required = self.file, self.gateway, self.file.required_participants
        self._progress.report(f"waiting for {', '.join(file.names)}")

        def all_connected() -> bool:
            away = [name for name in file.names if not gateway.is_connected(name)]
            declined = [name for name in away if name in gateway.declined]
            if len(file.names) - len(declined) < required and file.on_too_few == "fail":
                why = "; ".join(f"{name}: {gateway.declined[name]}" for name in declined)
                raise TooFewError(f"Too few take part: a round needs {required}. {why}")
            return len(away) == len(declined)

        self._wait_until(all_connected, file.join_timeout)
        self._have_minimum()
        odd = self._acceptance.settle({name: each.accepted for name, each in gateway.connections.items()})
        for name, why in odd.items():
            gateway.refuse(name, why)
        self._have_minimum()

    def _have_minimum(self) -> None:
        """As many as a round needs, at last; whoever has declined may come back meanwhile."""
        file, required = self.file, self.file.required_participants
        connected = [name for name in file.names if self.gateway.is_connected(name)]
        if len(connected) < required and file.on_too_few == "wait":
            self._progress.report(f"{len(connected)} are here, {required} are needed; waiting on")
            self._wait_for_minimum(file.wait_timeout)
        elif len(connected) < required:
            raise TooFewError(
                f"After {file.join_timeout:g} s {len(connected)} participants are here "
                f"({', '.join(connected) or 'none'}); a round needs {required} (`min_participants`)."
            )

    def _federation(self) -> Federation:
        file, accepted = self.file, {name: each.accepted for name, each in self.gateway.connections.items()}
        like = next(iter(accepted.values()))
        rules = Rules(
            answer_timeout=file.answer_timeout,
            min_participants=file.required_participants,
            on_too_few=file.on_too_few,
            wait_timeout=file.wait_timeout,
            max_messages=file.max_messages,
        )
        federation = Federation(
            [RemoteParticipant(each.name, each.weight, accepted.get(each.name), like) for each in file.participants],
            self.method,
            public=self.public,
            test=None if file.test is None else file.test.load(),
            seed=file.seed,
            engine=Flower(self.gateway, pick_device(file.device), rules, self._progress.report),
            participation=file.participation,
            keep_optimizer=file.keep_optimizer,
            channel=file.channel.build(self.limits),
        )
        federation.made_from = file.model_dump(mode="json", fallback=str, exclude={"tls"})
        return federation

    def _after_round(self, federation: Federation, rows: list[Row]) -> None:
        """Says how the round went, and heeds what those who run it wish."""
        self._report_round(federation, rows)
        self._keep_status(federation)
        try:
            self._heed()
        except StopWishedError:
            federation.stop(STOP_WISHED)
        self._round_began = time.monotonic()

    def _keep_status(self, federation: Federation) -> None:
        """How the federation stands now, for those who look."""
        status, history = self.board.status, federation.history
        self._seconds.append(time.monotonic() - self._round_began)
        final, spent = history.final, history.spent()
        status.round, status.metric, status.score = history.rounds, final.metric, final.score
        status.score_of = sum(row.get(final.metric) is not None for row in final.rows)
        status.bytes_up, status.bytes_down = history.bytes()
        status.seconds_left = median(self._seconds) * (self.file.rounds - history.rounds)
        last = {row["participant"]: row["round"] for row in final.rows if row["took_part"] and not row["refused"]}
        for each in status.participants:
            each.bytes_up, each.bytes_down, _ = spent.get(each.name, (0, 0, 0.0))
            each.round = last.get(each.name, each.round)
        self.board.write()

    def _report_round(self, federation: Federation, rows: list[Row]) -> None:
        for row in rows:
            if row["refused"]:
                self._audit_log.note(
                    "refused", participant=row["participant"], round=federation.history.rounds, why=row["refused"]
                )
        number, final = federation.history.rounds, federation.history.final
        up, down = (sum(row[way] for row in rows) for way in ("bytes_up", "bytes_down"))
        travelled = f"received {readable_bytes(up)}, sent {readable_bytes(down)}"
        score = readable(final.metric, final.score)
        reached = "" if final.score is None else f", mean {title(final.metric)} {score}"
        self._progress.report(f"round {number} of {self.file.rounds}: {travelled}{reached}")


def _identity(out: Path) -> str:
    """What participants know a run by: drawn when its folder is made, kept in it."""
    path = out / "federation.json"
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"federation": secrets.token_hex(8), "made": time.strftime("%Y-%m-%dT%H:%M:%S")}))
    return str(json.loads(path.read_text())["federation"])
