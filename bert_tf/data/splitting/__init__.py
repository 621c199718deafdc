"""A table split into files to train on and to score on. `split.split` alone is called from outside."""
