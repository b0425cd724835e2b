"""Reading: data in whatever form a user has them, made into samples.

``given`` is the way in. ``arrays`` reads numbers, ``tables`` keeps what only estimators read (data frames, sparse
matrices, texts), and each says how a network could read it, or why not.
"""
