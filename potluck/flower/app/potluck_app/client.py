"""The ClientApp of Flower's simulation, where participants live in its workers.

Between machines there is none: `potluck join` takes messages from the server by itself.
"""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from .records import from_records, to_records

app = ClientApp()


@app.query()
def forward(message: Message, context: Context) -> Message:
    """Has the participant that this node stands for answer."""
    from potluck.flower.simulation import CLIENTS

    head, body = CLIENTS.answer(*from_records(message.content), context.run_config, context.node_config)
    return Message(to_records(head, body), reply_to=message)
