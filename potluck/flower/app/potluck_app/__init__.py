"""Potluck as a Flower app."""
