"""Rows that are sorted on disk."""

import numpy as np
import pytest

from bert_tf.data.ragged import Ragged
from bert_tf.pretraining.corpus import external_sort


def _two_runs(tmp_path):
    folders = [str(tmp_path / name) for name in ("a", "b")]
    external_sort.write_sorted(
        folders[0],
        np.array([8, 1, 4], np.uint64),
        {"words": Ragged(np.array([8, 8, 1, 4, 4, 4]), np.array([0, 2, 3, 6])), "names": np.array([80, 10, 40])},
    )
    external_sort.write_sorted(
        folders[1],
        np.array([5, 2], np.uint64),
        {"words": Ragged(np.array([2, 2]), np.array([0, 0, 2])), "names": np.array([50, 20])},
    )
    return folders


def test_a_range_is_read_from_all_runs_in_order(tmp_path):
    folders = _two_runs(tmp_path)
    keys, columns = external_sort.read_sorted(folders, ["words", "names"], 0, 5)
    assert keys.tolist() == [1, 2, 4] and columns["names"].tolist() == [10, 20, 40]
    assert [row.tolist() for row in columns["words"].rows()] == [[1], [2, 2], [4, 4, 4]]
    keys, columns = external_sort.read_sorted(folders, ["words"], 5, external_sort.KEYS)
    assert keys.tolist() == [5, 8] and [row.tolist() for row in columns["words"].rows()] == [[], [8, 8]]


def test_a_range_without_rows(tmp_path):
    keys, columns = external_sort.read_sorted(_two_runs(tmp_path), ["words", "names"], 6, 8)
    assert len(keys) == len(columns["names"]) == len(columns["words"].lengths) == 0


def test_a_run_without_rows(tmp_path):
    nothing = Ragged(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    external_sort.write_sorted(str(tmp_path / "r"), np.zeros(0, np.uint64), {"w": nothing})
    keys, columns = external_sort.read_sorted([str(tmp_path / "r")], ["w"], 0, external_sort.KEYS)
    assert len(keys) == len(columns["w"].lengths) == 0


@pytest.mark.parametrize("of", [1, 3, 7])
def test_ranges_hold_every_key_once(of):
    edges = [external_sort.bounds(number, of) for number in range(of)]
    assert edges[0][0] == 0 and edges[-1][1] == external_sort.KEYS
    assert all(a[1] == b[0] for a, b in zip(edges[:-1], edges[1:], strict=True))


def test_the_highest_key_is_in_the_last_range(tmp_path):
    external_sort.write_sorted(str(tmp_path / "r"), np.array([2**64 - 1, 0], np.uint64), {})
    assert external_sort.read_sorted([str(tmp_path / "r")], [], *external_sort.bounds(2, 3))[0].tolist() == [2**64 - 1]


@pytest.mark.parametrize("of", [1, 3, 64])
def test_every_key_is_in_the_range_that_holds_it(of):
    keys = np.random.default_rng(of).integers(0, 2**64 - 1, 200, np.uint64, endpoint=True)
    edges = [external_sort.bounds(n, of)[0] for n in range(of)]
    keys = np.concatenate([keys, np.array(edges, np.uint64)])
    for key, number in zip(keys.tolist(), external_sort.find_range(keys, of).tolist(), strict=True):
        low, high = external_sort.bounds(number, of)
        assert low <= key < high


@pytest.mark.parametrize("range_bytes", [1 << 20, 30], ids=["at once", "range by range"])
def test_merged_runs_are_one_with_all_their_rows(tmp_path, range_bytes):
    folders, names = _two_runs(tmp_path), ["words", "names"]
    merged = str(tmp_path / "merged")
    external_sort.merge_runs(folders, names, merged, range_bytes)
    external_sort.merge_runs(folders, names, merged, range_bytes)  # again, as after a kill
    for low, high in ((0, external_sort.KEYS), (2, 6), (6, 8)):
        keys, columns = external_sort.read_sorted(folders, names, low, high)
        its_keys, its_columns = external_sort.read_sorted([merged], names, low, high)
        assert keys.tolist() == its_keys.tolist()
        assert columns["names"].tolist() == its_columns["names"].tolist()
        for ours, its in zip(columns["words"], its_columns["words"], strict=True):
            assert ours.tolist() == its.tolist() and ours.dtype == its.dtype


def test_rows_with_equal_keys_stay_in_the_order_of_the_runs(tmp_path):
    folders = [str(tmp_path / name) for name in "abc"]
    for number, folder in enumerate(folders):
        external_sort.write_sorted(folder, np.array([7, 7], np.uint64), {"n": np.array([number, number + 10])})
    external_sort.merge_runs(folders, ["n"], str(tmp_path / "merged"), 1)
    _, columns = external_sort.read_sorted([str(tmp_path / "merged")], ["n"], 0, external_sort.KEYS)
    assert columns["n"].tolist() == [0, 10, 1, 11, 2, 12]
