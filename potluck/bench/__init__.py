"""How fast Potluck is: the federations that are measured, and how. ``potluck bench`` and ``benchmarks/`` use it."""
