"""The channel: the route of every payload between a participant and the server, on every engine."""
