"""Participants on many machines: on each, a batched engine of its own, driven over Ray."""
