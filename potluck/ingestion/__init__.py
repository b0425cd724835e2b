"""Ingestion: data in whatever form a user has them, made into samples.

``user_data`` is the way in. ``arrays`` reads numbers, ``tables`` keeps what only estimators read (data frames, sparse
matrices, texts), ``datasets`` reads what comes item by item, ``lazy`` leaves on disk what is large, ``images`` are
folders of them, ``files`` finds all of these in files.
"""
