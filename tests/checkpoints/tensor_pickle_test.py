"""The machine that reads a torch file's pickle: what it gives is what Python's own reader gives."""

import collections
import pickle

import pytest

from bert_tf.checkpoints import tensor_pickle

STATE = {"a": [1, -2, 300, 70_000, 2**40, 2.5, None, True, False], "ü" * 300: ("x", ("y", "z"), [], {}, ())}
CONTENT = collections.OrderedDict([("state_dict", STATE), (5, ["same"] * 3)])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_content_in_every_protocol(protocol):
    data = pickle.dumps(CONTENT, protocol)
    loaded = tensor_pickle.load_pickle(b"before" + data + b"after", 6)
    assert loaded.content == CONTENT
    assert (loaded.end, loaded.storages) == (6 + len(data), {})


def test_what_python_2_wrote():
    pairs = b"\x80\x02ccollections\nOrderedDict\n](](U\x01aK\x01e](U\x01bK\x02ee\x85R."
    assert tensor_pickle.load_pickle(pairs).content == {"a": 1, "b": 2} == pickle.loads(pairs)


@pytest.mark.parametrize(
    "data, words",
    [
        (b"\x80\x02.", "takes more from its stack"),
        (b"t.", "without a mark"),
        (b"h\x07.", "reads an undefined memo entry, number 7"),
        (b"K\x01K\x02a.", "a int in place of a list"),
        (b"}](K\x01es.", "takes more from its stack|not text or integers"),
        (b"}(K\x01u.", "not text or integers"),
        (b"ccollections\nOrderedDict\nK\x01R.", "a int in place of a tuple"),
        (b"ctorch\nFloatStorage\n)R.", "tries to call FloatStorage"),
        (b"c" + b"x" * 2000, "cut short"),
        (b"X\x02\x00\x00\x00\xff\xff.", "can't decode"),
    ],
)
def test_what_it_refuses(data, words):
    with pytest.raises(ValueError, match=words):
        tensor_pickle.load_pickle(data)
