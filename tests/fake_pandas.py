"""Stand-ins for pandas's Series and DataFrame, which are no dependency: what our code sees of them is as there."""

import numpy as np


class Series:
    """Values in an order, which `series[k]` takes by their label, as pandas does where labels are integers."""

    def __init__(self, values, index):
        self._values, self.index = list(values), list(index)
        self.shape = (len(self._values),)

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return iter(self._values)

    def __getitem__(self, key):
        if isinstance(key, slice):
            return Series(self._values[key], self.index[key])
        return self._values[self.index.index(key)]

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype or object)

    def tolist(self):
        return list(self._values)


class DataFrame:
    """Columns by name; to iterate over it gives their names, as pandas does."""

    def __init__(self, columns):
        self._columns, self.columns = columns, list(columns)
        self.shape = (len(next(iter(columns.values()))), len(columns))

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return self._columns[name]
