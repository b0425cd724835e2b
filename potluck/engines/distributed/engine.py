"""The distributed engine: participants live in workers on many machines, each with a batched engine, driven over Ray.

The server's half stays in this process. Payloads, notes and metrics cross, and how participants are at the end of a
phase. Participants are cut into blocks, by architecture and name, and a block is played by one engine whichever worker
holds it: so neither the number of workers nor the loss of one changes a result.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from potluck.core.errors import PotluckError, SettingsError
from potluck.core.job import Job
from potluck.core.metrics import Scores
from potluck.core.party import Arrival, Host, Movable, Party
from potluck.core.payload import Payload
from potluck.core.samples import Samples
from potluck.core.settings import check_count
from potluck.engines.base import Answering, Engine, Half, Timed
from potluck.engines.batched.engine import Batched
from potluck.engines.distributed.worker import BlockWorker, Found
from potluck.learners.network import Network

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

log = logging.getLogger(__name__)

BLOCK = 8
"""How many participants of one architecture make a block: what a worker takes at a time, and stacks."""

ATTEMPTS = 3
"""How many workers may die over one call before it is given up."""


WorkerCall = tuple[str, tuple[Any, ...]]
"""A method of a worker, and its arguments."""


@dataclass(frozen=True)
class Asked:
    """A call on its way.

    Args:
        worker: whom it was made to.
        answer: where its answer will be.
        fields: where the parties will be as they are then, if the call ends their phase.
    """

    worker: Any
    answer: Any
    fields: Any = None


@dataclass(eq=False)
class Block:
    """Participants that one worker holds, and what it takes to begin their phase again elsewhere.

    Args:
        number: which one.
        parties: what of them never changes, by name.
        fields: where they are as the phase found them.
        calls: what was called in this phase.
        asked: the last call.
    """

    number: int
    parties: dict[str, Movable]
    fields: Any
    calls: list[WorkerCall] = field(default_factory=list)
    asked: Asked | None = None


class Ray(Engine):
    """Has workers on this machine or on a Ray cluster play blocks of participants.

    Args:
        device: what networks compute on, in each worker.
        precision: what they compute in; by default "torch".
        workers: how many; by default one for each GPU of the cluster where the device is one, else for each core.
        address: of a Ray cluster, "auto" for the one of this machine; by default Ray is started for this process.
        block: how many participants of one architecture are taken together; by default 8. Results do not depend on the
            workers, but by rounding on this.
        threads: how many threads a worker computes with; by default 1.
    """

    def __init__(
        self,
        device: torch.device,
        precision: str = "torch",
        *,
        workers: int | None = None,
        address: str | None = None,
        block: int = BLOCK,
        threads: int = 1,
    ) -> None:
        check_count("workers", workers, "worker processes", least=1, optional=True)
        check_count("block", block, "participants", least=1)
        check_count("threads", threads, "threads", least=1)
        self.workers, self.address, self.block, self.threads = workers, address, block, threads
        super().__init__(device, precision)

    def _begin(self) -> None:
        super()._begin()
        self._local = Batched(self.device, self.precision)
        """Carries out the server's own work."""
        self._workers: list[ActorHandle[Any]] = []
        self._blocks: list[Block] = []
        self._block_of: dict[str, Block] = {}
        self._tests: dict[int, tuple[Samples, str, Any]] = {}
        """Test data that workers have, by identity."""

    @property
    def host(self) -> Host:
        """It is one itself."""
        return self

    def described(self) -> dict[str, Any]:
        """The number of workers decides nothing; who is in a block does, and how many threads compute."""
        return {"name": "ray", "device": str(self.device), "block": self.block, "threads": self.threads}

    def decisions(self) -> dict[str, Any]:
        return {**super().decisions(), "workers": len(self._workers), "blocks": len(self._blocks)}

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        """The server's own work is done here."""
        return self._local.timed(jobs)

    # Where participants are.

    def take(self, parties: Sequence[Movable]) -> None:
        """Sends parties to workers, in blocks of their own."""
        ray = self._connected()
        alike: dict[str, list[Movable]] = {}
        for party in sorted(parties, key=lambda party: party.name):
            alike.setdefault(_kind(party), []).append(party)
        for _, members in sorted(alike.items()):
            for some in groups_of(members, min(self.block, self.max_concurrent or self.block)):
                fields = {party.name: {name: party.held.pop(name) for name in party.changing} for party in some}
                block = Block(len(self._blocks), {party.name: party for party in some}, ray.put(fields))
                self._blocks.append(block)
                self._block_of |= dict.fromkeys(block.parties, block)
                self._send(block)

    def fields(self, name: str) -> dict[str, Any]:
        """What of a party changes, as the last phase left it."""
        import ray

        found: dict[str, Any] = ray.get(self._block_of[name].fields)[name]
        return found

    def put_back(self, changed: Mapping[str, Mapping[str, Any]]) -> None:
        """Has workers take over what was changed of parties in this process."""
        blocks = {self._block_of[name].number: self._block_of[name] for name in changed}
        for block in blocks.values():
            own = {name: dict(fields) for name, fields in changed.items() if name in block.parties}
            block.fields = self._worker(block).change.remote(block.number, own)

    def forget(self, name: str) -> None:
        """A party is none of this engine's any more."""
        self._block_of.pop(name)

    # The course of a phase.

    @property
    def active(self) -> bool:
        return any(block.calls for block in self._blocks)

    def start(self, phase: str, parties: Iterable[Party], half: Half, keep_optimizer: bool) -> Iterator[Arrival]:
        """Begins a phase at each party, those of all blocks at the same time."""
        people = list(parties)
        if self.storage is None:
            raise SettingsError("The engine 'ray' plays the participants of a Federation; they stay with its workers.")
        self.storage.pin(people)
        packed, calls = _packed(half), {}
        for block, names in self._by_block([party.name for party in people]).items():
            block.calls = []
            rounds = {party.name: party.round for party in people if party.name in names}
            calls[block] = ("start", (phase, rounds, packed, keep_optimizer))
        return self._arrivals(calls)

    def resume(self, replies: Mapping[str, Payload]) -> Iterator[Arrival]:
        """Hands each participant the server's reply; one that many receive is written once."""
        written: dict[int, tuple[Payload, bytes]] = {}
        calls = {}
        for block, names in self._by_block(replies).items():
            payloads = {}
            for name in names:
                reply = replies[name]
                if id(reply) not in written:
                    written[id(reply)] = reply, reply.to_bytes()
                payloads[name] = written[id(reply)][1]
            calls[block] = ("resume", (payloads,))
        return self._arrivals(calls)

    def dismiss(self, name: str) -> None:
        """Ends a participant's half early."""
        list(self._arrivals({self._block_of[name]: ("dismiss", (name,))}))

    def evaluate(
        self,
        parties: Mapping[str, Party],
        test_of: Callable[[Any], Samples | None],
        answering: Mapping[str, Answering],
    ) -> dict[str, Scores]:
        """What each participant scores, worked out where it is."""
        assert self.storage is not None
        self.storage.pin(list(parties.values()))
        tests = {name: self._test(test_of(party)) for name, party in parties.items()}
        packed, calls = _packed(dict(answering)), {}
        for block, names in self._by_block(parties).items():
            rounds = {name: parties[name].round for name in names}
            calls[block] = (rounds, {name: tests[name] for name in names}, packed)

        def ask(block: Block) -> Asked:
            worker = self._worker(block)
            return Asked(worker, worker.evaluate.remote(block.number, *calls[block]))

        asked = {block: ask(block) for block in calls}
        found: dict[str, Scores] = {}
        for block in calls:
            found |= self._got(block, asked[block], ask)
        return {name: found[name] for name in parties}

    def serve(self, server: Party, half: Generator[Any, Any, Any], exchange: str) -> Any:
        """The server's half is played here."""
        return self._local.serve(server, half, exchange)

    def _arrivals(self, calls: Mapping[Block, WorkerCall]) -> Iterator[Arrival]:
        """Makes a call for each block, all at once; who comes to an exchange by it, block by block."""
        for block, call in calls.items():
            block.calls.append(call)
            self._call(block, call)
        for block in calls:
            found = self._found(block)
            for incident in found.incidents:
                self._tell(incident)
            yield from (event.arrived() for event in found.events)

    def _found(self, block: Block) -> Found:
        """What came of a block's last call; at the end of its phase it is known how its parties are."""
        found: Found = self._got(block, block.asked, lambda block: block.asked)
        if found.ended and block.asked is not None:
            block.fields, block.calls = block.asked.fields, []
        return found

    def _got(self, block: Block, asked: Asked | None, again: Callable[[Block], Asked | None]) -> Any:
        """What was answered; where the worker died, its blocks go to a new one, and it is asked again."""
        import ray

        for _ in range(ATTEMPTS):
            assert asked is not None
            try:
                return ray.get(asked.answer)
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None  # type: ignore[no-untyped-call]
            except ray.exceptions.RayActorError:
                if self._worker(block) is asked.worker:  # else another of its blocks has seen to it
                    self._replace(block)
                asked = again(block)
            except ray.exceptions.ObjectLostError as error:
                raise PotluckError(
                    "A machine was lost with what its participants had learned. Go on from the last checkpoint with "
                    "--resume."
                ) from error
        raise PotluckError(
            f"{ATTEMPTS} workers died, one after the other, over {', '.join(sorted(block.parties))}. If memory ran "
            f"out, try fewer at a time (block = {max(1, self.block // 2)}), or fewer workers."
        )

    # Workers.

    def _connected(self) -> Any:
        """Ray, with the workers started."""
        try:
            import ray
        except ImportError as error:
            raise SettingsError(
                "The engine 'ray' needs Ray. Install it with `pip install '.[ray]'` in Potluck's folder."
            ) from error
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            try:
                ray.init(self.address, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
            except (ConnectionError, ValueError) as error:
                raise SettingsError(f"There is no Ray cluster at {self.address!r}: {error}") from None
        if not self._workers:
            kind = "GPU" if self.device.type == "cuda" else "CPU"
            there = int(ray.cluster_resources().get(kind, 0))  # type: ignore[no-untyped-call]
            each = 1 if kind == "GPU" else self.threads
            count = self.workers or max(1, there // each)
            if count * each > there and (self.address is not None or kind == "GPU"):
                raise SettingsError(
                    f"workers is {count}, which takes {count * each} {kind}s; this Ray cluster has {there}. Ask for "
                    f"fewer, or join more machines."
                )
            self._workers = [self._new_worker() for _ in range(count)]
        return ray

    def _new_worker(self) -> Any:
        import ray

        gpus = 1 if self.device.type == "cuda" else 0
        # On a cluster Ray sets cores aside. On one machine federations stand side by side, none waiting for another.
        cores = 0 if self.address is None else self.threads
        made = ray.remote(BlockWorker).options(num_cpus=cores, num_gpus=gpus, scheduling_strategy="SPREAD")
        return made.remote(sys.path, str(self.device), self.precision, self.threads)

    def _worker(self, block: Block) -> Any:
        return self._workers[block.number % len(self._workers)]

    def _send(self, block: Block) -> None:
        """Has the block's worker hold it as it was when its phase began."""
        self._worker(block).receive.remote(
            block.number, _packed(list(block.parties.values())), block.fields, len(block.parties)
        )

    def _call(self, block: Block, call: WorkerCall) -> None:
        (name, arguments), worker = call, self._worker(block)
        found, fields = getattr(worker, name).options(num_returns=2).remote(block.number, *arguments)
        block.asked = Asked(worker, found, fields)

    def _replace(self, lost: Block) -> None:
        """Has a new worker take over all blocks of one that died, each from the beginning of its phase."""
        place = lost.number % len(self._workers)
        self._tell(f"Worker {place} died; its participants go on in a new one.")
        self._workers[place] = self._new_worker()
        for _, name, shared in self._tests.values():
            self._workers[place].take_test.remote(name, shared)
        for block in self._blocks:
            if block.number % len(self._workers) == place and self._is_held(block):
                self._send(block)
                for call in block.calls:
                    self._call(block, call)

    def _is_held(self, block: Block) -> bool:
        return any(self._block_of.get(name) is block for name in block.parties)

    def _by_block(self, names: Iterable[str]) -> dict[Block, list[str]]:
        found: dict[Block, list[str]] = {}
        for name in names:
            found.setdefault(self._block_of[name], []).append(name)
        return found

    def _test(self, samples: Samples | None) -> str | None:
        """The name under which all workers have these test data; they are sent once."""
        if samples is None:
            return None
        if id(samples) not in self._tests:
            name = f"test {len(self._tests)}"
            import ray

            shared: ObjectRef[Any] = ray.put(samples)
            for worker in self._workers:
                worker.take_test.remote(name, shared)
            self._tests[id(samples)] = samples, name, shared
        return self._tests[id(samples)][1]


def groups_of(members: Sequence[Movable], size: int) -> Iterator[Sequence[Movable]]:
    """The same in groups of that size; the last one may be smaller."""
    return (members[start : start + size] for start in range(0, len(members), size))


def _kind(party: Movable) -> str:
    """What the parties of one block have in common: the architecture of a network, or the class of a model."""
    learner = party.held["learner"]
    return learner.architecture.digest if isinstance(learner, Network) else type(learner.model).__qualname__


def _packed(thing: Any) -> bytes:
    """Anything in bytes, functions of the user's own included."""
    import ray.cloudpickle as cloudpickle

    packed: bytes = cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    return packed
