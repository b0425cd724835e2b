"""Published data sets by name: found in local files, or downloaded where that is asked for, and read into sources.

``catalog`` says of each where it is from, under which licence, and which files it has. ``folders`` finds files,
``download`` gets them from their original address, ``hub`` from the Hugging Face hub; ``published`` ties these
together. The other modules read the files, in the formats in which they are published.
"""
