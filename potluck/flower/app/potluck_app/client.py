"""The ClientApp: passes a message to the participant's own process and its answer back. It reads neither.

Flower starts a process for every message, so this file imports nothing heavy: no torch, not even potluck.
"""

from multiprocessing.connection import Client

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from .records import from_records, to_records

app = ClientApp()


@app.query()
def forward(message: Message, context: Context) -> Message:
    """Hands the message over and waits for the answer, however long the work takes."""
    head, body = from_records(message.content)
    address = context.node_config.get("potluck-socket")
    if address:
        # Raw bytes on a socket that only this user can open; nothing is unpickled on either side.
        with Client(str(address), family="AF_UNIX") as connection:
            connection.send_bytes(head.encode())
            connection.send_bytes(body)
            head, body = connection.recv_bytes().decode(), connection.recv_bytes()
    else:
        from potluck.flower.simulation import CLIENTS  # the participant lives here, in Flower's simulation

        head, body = CLIENTS.answer(head, body, context.run_config, context.node_config)
    return Message(to_records(head, body), reply_to=message)
