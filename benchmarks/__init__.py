"""Measurements. Each file says what it measures and how to run it."""
