"""Every flag of the programs, defined once, as data: tuples of `settings.Flag`. No logic.

What one task alone has stands with it, in its `options.py`.
"""
