"""The Flower engine: the same methods across machines. Flower carries letters, TLS and node keys; we carry the method.

On the server: ``post`` exchanges letters with nodes, ``engine`` turns them into what a federation drives, ``serving``
is what runs in Flower's ServerApp. On a participant's machine: ``host`` does its half in one long-lived process,
``desk`` keeps what must survive it, and the thin ClientApp in ``app`` only carries letters to it. ``files`` are what
people write, ``processes`` start and stop Flower's programs. Only this package imports flwr.
"""
