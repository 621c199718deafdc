"""Groups of rows that must stay together."""

import numpy as np

from bert_tf.data import row_groups


def test_groupings_are_joined_transitively():
    assert row_groups.join_groups(np.array([0, 1, 1, 3, 4]), np.array([0, 1, 0, 3, 3])).tolist() == [0, 0, 0, 3, 3]
