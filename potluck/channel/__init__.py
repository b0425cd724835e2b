"""The channel: the one way a payload takes between a participant and the server, on every engine."""
