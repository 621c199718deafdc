"""The program's own part: flags that have no effect beside others."""

from tests import processes


def test_flags_without_effect_are_told(corpus, tmp_path):
    flags = [
        f"--input_file={corpus}/*.txt", f"--vocab_file={corpus}/vocab.txt", f"--output_file={tmp_path}/a.tfrecord",
        "--input_format=sentences", "--num_workers=1", "--dupe_factor=1", "--dynamic_masking", "--masking=span",
        "--document_start=x", "--max_sentences_per_seq=3", "--beam_options=--x",
    ]  # fmt: skip
    (tmp_path / "a-00001-of-00004.tfrecord").write_bytes(b"of another run")
    done = processes.run("-m", "bert_tf", "create_pretraining_data", *flags)
    done.check_returncode()
    told = [line.split(" ", 1)[1] for line in done.stderr.splitlines() if "has no effect" in line]
    assert told == [
        "--max_sentences_per_seq has no effect without --packing.",
        "--masking has no effect with --dynamic_masking: training masks.",
        "--beam_options has no effect without --runner.",
        "--document_start has no effect on files that are not prose.",
    ]
    assert f"1 files of another run lie beside them, such as {tmp_path}/a-00001-of-00004.tfrecord." in done.stderr
