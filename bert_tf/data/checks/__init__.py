"""A look at examples before a run: what in them is probably a mistake. `look` alone is called from outside."""
