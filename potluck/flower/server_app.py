"""What runs in Flower's ServerApp: invites the participants of a federation file, and runs the federation."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
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
from potluck.flower.certificates import fingerprint, fingerprint_of, sealing
from potluck.flower.config import FederationFile, read_federation
from potluck.flower.consent import sent_settings
from potluck.flower.engine import Flower, Rules, TooFewError
from potluck.flower.gateway import Gateway, StoppedError
from potluck.flower.guarded_grid import guard
from potluck.flower.processes import end_with
from potluck.flower.progress import ProgressLog
from potluck.flower.protocol import MAX_HEAD_BYTES, PROTOCOL, Finished, Invitation, Paused, PublicDataInfo
from potluck.flower.public_data import checksum, to_payload
from potluck.flower.remote_participant import RemoteParticipant

ATTEMPTS = 3
"""How often a round that ended with too few is played again."""
FINISH_TIMEOUT = 20.0
"""Seconds that participants have to hear that the federation has ended."""


def serve(grid: Grid, config: Mapping[str, Any]) -> None:
    """Runs the federation that a run's configuration names. What happens is written to its ``progress`` file."""
    if config.get("server"):
        end_with(int(str(config["server"])))
    progress = ProgressLog(Path(str(config["progress"])) if config.get("progress") else None)
    try:
        if not config.get("federation"):
            raise SettingsError("No federation file: `flwr run . -c 'federation=\"/path/to/federation.toml\"'`.")
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
    """The run of a federation file.

    Args:
        grid: Flower's grid.
        file: the federation file.
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
        )

    def run(self, resume: bool) -> None:
        """Waits for the participants, runs the rounds, and says that the federation has ended."""
        if (self.out / "settings.json").exists() and not resume:
            raise SettingsError(f"{self.out} already holds a run. Go on with --resume, or choose another folder.")
        try:
            self._wait()
            federation = self._play(resume)
        except TooFewError as error:
            self.gateway.broadcast(Paused(reason=str(error)).message(), FINISH_TIMEOUT)
            raise
        (self.out / "table.txt").write_text(federation.history.table())
        self.gateway.broadcast(Finished(rounds=federation.history.rounds).message(), FINISH_TIMEOUT)

    def _play(self, resume: bool) -> Federation:
        """Runs the rounds. Where too few are left, waits for enough, and goes on from the last checkpoint."""
        file, in_vain, at = self.file, 0, -1
        while True:
            federation = self._federation()
            self._progress.report(f"playing {file.rounds} rounds of {type(self.method).__name__}; kept in {self.out}")
            try:
                federation.run(file.rounds, run_dir=self.out, resume=resume, callbacks=[self._report_round])
                return federation
            except TooFewError as error:
                in_vain = in_vain + 1 if federation.history.rounds == at else 1
                at = federation.history.rounds
                if file.on_too_few == "fail" or in_vain > ATTEMPTS:
                    raise
                self._progress.report(f"{error} Waiting for them, and then going on, for {file.wait_timeout:g} s.")
                self._wait_for_minimum(file.wait_timeout)
                resume = (self.out / "settings.json").exists()

    def _wait_for_minimum(self, timeout: float) -> None:
        names, required = self.file.names, self.file.required_participants
        self.gateway.wait_until(lambda: sum(map(self.gateway.is_connected, names)) >= required, timeout)
        if (there := sum(map(self.gateway.is_connected, names))) < required:
            raise TooFewError(f"{there} participants are here; a round needs {required} (`min_participants`).")

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

        gateway.wait_until(all_connected, file.join_timeout)
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
