"""Watching: what goes on in a run folder or a comparison, in the terminal and in a browser, without touching it."""
