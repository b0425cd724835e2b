"""The ClientApp: carries a letter to the participant's own process and its answer back. It looks at neither.

Flower starts a process for every message, so this file imports nothing heavy: no torch, not even potluck.
"""

from multiprocessing.connection import Client
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def carry(message: Message, context: Context) -> Message:
    """Hands the letter over and waits for the answer, however long the work takes."""
    head, body = opened(message.content)
    address = context.node_config.get("potluck-socket")
    if address:
        # Raw bytes on a socket that only this user can open; nothing is unpickled on either side.
        with Client(str(address), family="AF_UNIX") as host:
            host.send_bytes(head.encode())
            host.send_bytes(body)
            head, body = host.recv_bytes().decode(), host.recv_bytes()
    else:
        from potluck.flower.simulation import answer  # the participant lives here, in Flower's simulation

        head, body = answer(head, body, context.run_config, context.node_config)
    return Message(sealed(head, body), reply_to=message)


def opened(content: RecordDict) -> tuple[str, bytes]:
    """The head and the body that a message carries."""
    head = str(content.config_records["head"]["json"])
    return head, content.array_records["body"]["payload"].data if "body" in content else b""


def sealed(head: str, body: bytes) -> RecordDict:
    """A message's content that carries them. As an array, a large body travels in pieces."""
    records: dict[str, Any] = {"head": ConfigRecord({"json": head})}
    if body:
        records["body"] = ArrayRecord({"payload": Array("uint8", (len(body),), "safetensors", body)})
    return RecordDict(records)
