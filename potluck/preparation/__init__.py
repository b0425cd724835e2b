"""Preparing tables alike at all participants, from what each may tell of its own."""
