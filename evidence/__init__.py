"""Evidence: the papers' experiments on real data, one file for each, and the tables made of what they measure.

``python -m evidence.run_all --data FOLDER`` plays them all; docs/evidence.md shows what came out.
"""
