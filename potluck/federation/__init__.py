"""A federation: its parties, its method, its rounds, and where participants are between them."""
