"""The machine that reads a torch file's pickle: what it gives is what Python's own reader gives."""

import collections
import pickle
import time

import pytest

from bert_tf.checkpoints import tensor_pickle

STATE = {"a": [1, -2, 300, 70_000, 2**40, 2.5, None, True, False], "ü" * 300: ("x", ("y", "z"), [], {}, ())}
CONTENT = collections.OrderedDict([("state_dict", STATE), (5, ["same"] * 3)])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_content_in_every_protocol(protocol):
    data = pickle.dumps(CONTENT, protocol)
    loaded = tensor_pickle.load(b"before" + data + b"after", 6)
    assert loaded.content == CONTENT
    assert (loaded.end, loaded.storages) == (6 + len(data), {})


def test_what_python_2_wrote():
    pairs = b"\x80\x02ccollections\nOrderedDict\n](](U\x01aK\x01e](U\x01bK\x02ee\x85R."
    assert tensor_pickle.load(pairs).content == {"a": 1, "b": 2} == pickle.loads(pairs)


@pytest.mark.parametrize(
    "data, words",
    [
        (b"\x80\x02.", "takes more from its stack"),
        (b"t.", "without a mark"),
        (b"h\x07.", "recalls what it never stored, number 7"),
        (b"K\x01K\x02a.", "a int in place of a list"),
        (b"}](K\x01es.", "takes more from its stack|not text or integers"),
        (b"}(K\x01u.", "not text or integers"),
        (b"ccollections\nOrderedDict\nK\x01R.", "a int in place of a tuple"),
        (b"ctorch\nFloatStorage\n)R.", "wants to call FloatStorage"),
        (b"c" + b"x" * 2000, "cut short"),
        (b"X\x02\x00\x00\x00\xff\xff.", "can't decode"),
    ],
)
def test_what_it_refuses(data, words):
    with pytest.raises(ValueError, match=words):
        tensor_pickle.load(data)


PAIRS = b"](" + b"K\x01K\x02\x86" * 60_000 + b"e"
STORAGE = b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x04" + b"K\x00" * 60_000 + b"t"


@pytest.mark.parametrize(
    "data",
    [
        b"ccollections\nOrderedDict\nq\x01" + PAIRS + b"\x85q\x00" + b"h\x01h\x00R" * 20_000 + b".",
        STORAGE + b"q\x00" + b"h\x00Q" * 20_000 + b".",
    ],
    ids=["a dict of pairs", "a storage"],
)
def test_the_time_is_in_proportion_to_the_file(data):
    """What was made once can be given again in four bytes: 210 kB took 79 seconds."""
    began = time.process_time()
    with pytest.raises(ValueError, match="a pickle that has its lists looked at more than 1,000,000 times in all"):
        tensor_pickle.load(data)
    assert time.process_time() - began < 5


def test_keys_that_python_takes_for_ever_to_tell_apart():
    keys = b"".join(b"\x8a\x10" + (n * (2**61 - 1)).to_bytes(16, "little", signed=True) + b"N" for n in range(30_000))
    began = time.process_time()
    with pytest.raises(ValueError, match="a dict whose keys are not text or integers"):
        tensor_pickle.load(b"}(" + keys + b"u.")
    assert time.process_time() - began < 5
