"""Comparisons: the same federations played with several methods, settings and seeds, and what came of it."""
