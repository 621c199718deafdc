"""A look at examples before a run: what in them is likely not meant. `look` alone is called from outside."""
