"""Real federations over Flower: the same methods across machines. Flower carries messages, TLS and node keys.

On the server: ``server_app`` runs in Flower's ServerApp, ``gateway`` exchanges messages with nodes, and ``engine`` is
what the federation drives. On a participant's machine: ``client`` runs the participant's half in one long-lived
process, ``client_store`` keeps what must survive it, and ``node`` is the program that passes messages on to it.
``protocol`` is what travels, ``config`` what people write, ``consent`` what an owner agrees to. ``superlink`` and
``supernode`` start and stop the programs; ``port_filter``, ``same_user``, ``answer_limit`` and ``guarded_grid``
restrict what they do, ``long_polling`` and ``bell`` have nobody ask in vain. The app in ``app`` is what Flower runs at
the server, and in its simulation.
Only this package imports flwr.
"""
