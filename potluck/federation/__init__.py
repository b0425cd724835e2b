"""A federation: its parties, its method, its rounds, and the storage of participants."""
