"""The automatic engine: it chooses how each training is carried out."""
