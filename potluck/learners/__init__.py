"""Learners: what participants bring. ``network`` holds torch modules, ``estimator`` everything else."""
