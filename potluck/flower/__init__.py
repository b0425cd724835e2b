"""Real federations over Flower: the same methods across machines. Flower carries messages, TLS and node keys.

On the server: ``server_app`` runs in Flower's ServerApp, ``gateway`` exchanges messages with nodes, and ``engine`` is
what the federation drives. On a participant's machine: ``client`` runs the participant's half in one long-lived
process, ``client_store`` keeps what must survive it, and the thin ClientApp in ``app`` only passes messages on to it.
``protocol`` is what travels, ``config`` what people write, ``consent`` what an owner agrees to. ``superlink`` and
``supernode`` start and stop Flower's programs; ``port_filter``, ``same_user``, ``answer_limit``, ``guarded_grid`` and
the ``verified_`` programs restrict what they do.
Only this package imports flwr.
"""
