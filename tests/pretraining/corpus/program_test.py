"""The program's own part: flags that have no effect beside others."""

import pytest

from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.record_metadata import tokenizer_fingerprint
from bert_tf.tokenization.table_registry import TABLES, read_saved_tables
from tests.pretraining import families


@pytest.mark.slow
def test_flags_without_effect_are_told(program, corpus, tmp_path):
    flags = [
        f"--input_file={corpus}/*.txt", f"--vocab_file={corpus}/vocab.txt", f"--output_file={tmp_path}/a.tfrecord",
        "--input_format=sentences", "--num_workers=1", "--dupe_factor=1", "--dynamic_masking", "--masking=span",
        f"--phrase_file={corpus}/vocab.txt", "--mask_token_prob=0.7",
        "--max_predictions_per_seq=9", "--document_start=x", "--max_sentences_per_seq=3", "--beam_options=--x",
    ]  # fmt: skip
    (tmp_path / "a-00001-of-00004.tfrecord").write_bytes(b"of another run")
    done = program.run(flags)
    assert done["status"] == 0, done["log"]
    told = [line.split(" ", 1)[1] for line in done["log"].splitlines() if "has no effect" in line]
    assert told == [
        "--max_sentences_per_seq has no effect without --packing.",
        "--masking has no effect with --dynamic_masking, because training draws the masks.",
        "--phrase_file has no effect with --dynamic_masking, because training draws the masks.",
        "--mask_token_prob has no effect with --dynamic_masking, because training draws the masks.",
        "--max_predictions_per_seq has no effect with --dynamic_masking, because training draws the masks.",
        "--beam_options has no effect without --runner.",
        "--document_start has no effect with files that are not prose.",
    ]
    assert f"another run are in the same directory, such as {tmp_path}/a-00001-of-00004.tfrecord." in done["log"]


@pytest.mark.slow
def test_phrases_that_never_occur_are_told(program, corpus, tmp_path):
    (tmp_path / "phrases").write_text("wbk wbl wbm\nnew york\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("wak wal .\n\nwam wan .\n", encoding="utf-8")
    flags = [
        f"--input_file={tmp_path}/a.txt", f"--vocab_file={corpus}/vocab.txt", f"--output_file={tmp_path}/a.tfrecord",
        "--input_format=sentences", "--num_workers=1", "--dupe_factor=1", "--masking=phrase",
        f"--phrase_file={tmp_path}/phrases",
    ]  # fmt: skip
    done = program.run(flags)
    assert done["status"] == 0, done["log"]
    assert "Phrases: 1; skipped 1 more that contain tokens not in the vocabulary." in done["log"]
    assert f"No phrase of {tmp_path}/phrases occurs in any of the 2 examples, so whole words were" in done["log"]


def test_a_model_decides_its_special_tokens_and_its_objective(program, tmp_path):
    """And a text of another language is warned of, once."""
    tables = families.tokenizer_of(tmp_path / "model", "albert", TABLES)
    (tmp_path / "model" / "config.json").write_text('{"model_type": "albert", "vocab_size": 400}', encoding="utf-8")
    (tmp_path / "a.txt").write_text("\U00012000\U00012001 the \U00012002 .\n\U00012003 to .\n" * 5, encoding="utf-8")
    done = program.run([
        f"--input_file={tmp_path}/a.txt", f"--init_checkpoint={tmp_path}/model", f"--output_file={tmp_path}/a.tfrecord",
        "--input_format=sentences", "--num_workers=1", "--dupe_factor=1", "--masking=whole_word", "--max_seq_length=32",
    ])  # fmt: skip
    assert done["status"] == 0, done["log"]
    assert "--sentence_objective=sop, as in the pretraining of albert." in done["log"]
    assert done["log"].count("of the tokens of --input_file are unknown") == 1
    (metadata,) = Records.of([f"{tmp_path}/a.tfrecord"]).metadata.values()
    assert metadata.sentence_objective == "sop" and metadata.tokenizer == tokenizer_fingerprint(tables)
    assert read_saved_tables(tmp_path / "a_vocabulary").vocab == tables.vocab
