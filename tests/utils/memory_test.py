"""Limits of memory, as a container has them."""

import pytest

from bert_tf.utils import memory


@pytest.mark.parametrize(
    "line, files, limits",
    [
        ("0::/", {"memory.max": "3000"}, [3000]),
        ("0::/a/b", {"memory.max": "3000", "a/memory.max": "max", "a/b/memory.max": "2000"}, [3000, 2000]),
        ("4:memory:/a", {"memory/memory.limit_in_bytes": "9", "memory/a/memory.limit_in_bytes": "5"}, [9, 5]),
        ("4:cpu,memory:/on/the/host", {"memory/memory.limit_in_bytes": "9"}, [9]),
        ("5:cpuset:/a", {"memory/memory.limit_in_bytes": "9"}, []),
    ],
)
def test_limits_of_control_groups(tmp_path, line, files, limits):
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    groups.write_text(f"{line}\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    assert memory.group_limits(groups, root) == limits
