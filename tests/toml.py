"""A reader of TOML: the standard library's, or, for Python 3.10, which has none, the package that it was made from."""

import sys

if sys.version_info >= (3, 11):
    from tomllib import loads as loads
else:
    from tomli import loads as loads
