"""Tools for those who work on Potluck."""
