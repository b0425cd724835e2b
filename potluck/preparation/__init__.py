"""Preparing tables alike at all participants, from what each may disclose of its own."""
