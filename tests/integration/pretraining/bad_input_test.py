"""What a user can get wrong in a pretraining: one clear message, no traceback, status 1, nothing half-made."""

import os
import re
import shutil

import pytest
import tensorflow as tf

from tests import tiny
from tests.integration.pretraining import support
from tests.integration.pretraining.support import LENGTH, PREDICTIONS
from tests.scripts import files

FEW = len(tiny.VOCAB) - 4  # rows of an embedding table that is too short for the records

# Name -> (changes of the command line, what the message must say); HOME is the folder with all files. Without
# --output_dir the output is HOME/out, which must not appear.
BAD = {
    "an empty glob": (
        ["--input_file=HOME/nothing-*"],
        r"No file matches --input_file=HOME/nothing-\*\. Check its spelling",
    ),
    "an empty glob of held-out files": (["--eval_file=HOME/nothing-*"], r"No file matches --eval_file=HOME/noth"),
    "records for another length": (
        ["--max_seq_length=16"],
        rf"train\.tfrecord must contain input_ids as 16 int64; got {LENGTH} int64; create the records again with "
        rf"--max_seq_length=16, or set --max_seq_length={LENGTH} for this run",
    ),
    "records with fewer predictions": (
        ["--max_predictions_per_seq=9"],
        rf"train\.tfrecord must contain masked_lm_\w+ as 9 int64; got {PREDICTIONS} int64; create the records again "
        rf"with --max_predictions_per_seq=9, or set --max_predictions_per_seq={PREDICTIONS} for this run",
    ),
    "records of two lengths": (
        ["--input_file=HOME/train.tfrecord,HOME/short.tfrecord"],
        r"short\.tfrecord does not match HOME/train\.tfrecord: input_ids is 16 int64 in the former and "
        rf"{LENGTH} int64 in the latter",
    ),
    "held-out records that do not fill a batch": (
        ["--eval_file=HOME/train.tfrecord", "--eval_batch_size=5000"],
        r"The record files, such as HOME/train\.tfrecord, do not contain a full batch\. Use a smaller batch",
    ),
    "held-out records of another sentence objective": (
        ["--eval_file=HOME/packed.tfrecord"],
        r"the same `sentence_objective`\. HOME/packed\.tfrecord was made with sop, but HOME/train\.tfrecord with nsp",
    ),
    "records of two sentence objectives": (
        ["--input_file=HOME/train.tfrecord,HOME/swapped.tfrecord"],
        r"the same `sentence_objective`\. HOME/swapped\.tfrecord was made with sop, but HOME/train\.tfrecord with nsp",
    ),
    "held-out records without sentences": (
        ["--eval_file=HOME/alone.tfrecord"],
        r"with the same `sentence_objective`\. It differs in HOME/train\.tfrecord, HOME/alone\.tfrecord; make t",
    ),
    "records packed and not": (
        ["--input_file=HOME/train.tfrecord,HOME/packed.tfrecord"],
        r"packed\.tfrecord does not match HOME/train\.tfrecord",
    ),
    "another vocabulary of the same size": (
        ["--vocab_file=HOME/other.txt"],
        rf"with the model's vocabulary, HOME/other\.txt, of {len(tiny.VOCAB)} tokens with the SHA-256 \w+\. "
        r"HOME/train\.tfrecord was made with another one.* pass --vocab_file=HOME/train_vocabulary/vocab\.txt ",
    ),
    "another letter case": (
        ["--do_lower_case=false"],
        r"do_lower_case, false\. HOME/train\.tfrecord was made with do_lower_case true; create the records again or, "
        r"if true is correct, set it in --do_lower_c",
    ),
    "records of another program, and of another vocabulary": (
        ["--input_file=HOME/foreign.tfrecord", "--vocab_file=HOME/moved.txt"],
        r"sequences of HOME/foreign\.tfrecord must begin with \[CLS\], 4 in the model's vocabulary, HOME/moved\.txt; "
        r"got 2: the records were made with another vocabulary; create them again",
    ),
    "records that bring no vocabulary": (
        ["--input_file=HOME/foreign.tfrecord", "-vocab_file"],
        r"--vocab_file is required, because .* none was found next to HOME/foreign\.tfrecord\. Pass the one",
    ),
    "records cut short": (
        ["--input_file=HOME/cut_short"],
        r"HOME/cut_short/train\.tfrecord must have [\d,]+ bytes according to HOME/cut_short/train_records\.json, "
        r"but it has [\d,]+: it was truncated",
    ),
    "a folder that holds no records": (
        ["--input_file=HOME/empty"], r"No record files found: 'HOME/empty' contains none\. Create some",
    ),
    "phases without records": (
        ["--phases=64x3", "-max_seq_length"],
        r"No records with sequences of 64 tokens: in HOME/train\.tfrecord, all have 32",
    ),
    "phases and a number of predictions, for records with masks": (
        ["--phases=32x3", "-max_seq_length", "--max_predictions_per_seq=77"],
        r"--phases and --max_predictions_per_seq cannot be combined for records that are masked already",
    ),
    "phases that cannot be read": (["--phases=32", "-max_seq_length"], r"--phases must list LENGTHxSTEPS"),
    "masks for records that have some": (["--masking=span"], r"--masking requires records without masks, but"),
    "a random share for records with masks": (
        ["--random_token_prob=0.2"],
        r"--random_token_prob requires records without masks, but .*train\.tfrecord\. Create",
    ),
    "shares that are more than all": (
        ["--input_file=HOME/unmasked.tfrecord", "--mask_token_prob=0.9", "--random_token_prob=0.2"],
        r"--mask_token_prob and --random_token_prob must .* at most 1; got 0\.9 and 0\.2",
    ),
    "ALBERT without sentences": (
        ["--input_file=HOME/unmasked_alone.tfrecord", "--objective=albert"],
        r"Records for --objective=albert must have sentence labels; got records "
        r"without them, such as HOME/unmasked_alone\.tfrecord; create them with `pretrain data` and",
    ),
    "RoBERTa with sentences": (
        ["--input_file=HOME/unmasked.tfrecord", "--objective=roberta"],
        r"--objective=roberta must not have sentence labels; got records with some, such as HOME/unmasked\.t",
    ),
    "RoBERTa with masks": (
        ["--input_file=HOME/alone.tfrecord", "--objective=roberta"],
        r"--objective=roberta must not have masks, .*got records that are masked already, such as HOME/alone\.tfr",
    ),
    "ERNIE without a list": (
        ["--input_file=HOME/unmasked.tfrecord", "--objective=ernie"],
        r"--phrase_file and --masking=phrase require each other; got no list and --mask",
    ),
    "a list in the wrong form": (
        ["--input_file=HOME/unmasked.tfrecord", "--objective=ernie", "--phrase_file=HOME/columns.tsv"],
        r"HOME/columns\.tsv:1: .* must be one phrase .*got 'the\\tfilm', which has a tab; use a plain list",
    ),
    "training on nothing": (["-input_file"], r"No records: --do_train requires --input_file"),
    "an empty name": (["--output_dir="], r"--output_dir must not be empty\."),
    "a file that holds no records": (
        ["--input_file=HOME/vocab.txt"],
        r"vocab\.txt must be a TFRecord file of .* It is another format; create records with",
    ),
    "a configuration that contradicts the checkpoint": (
        ["--init_checkpoint=HOME/init", "--bert_config_file=HOME/wide.json"],
        r"does not match the weights in HOME/init.*: hidden_size 64, but bert/embeddings/word_embeddings of",
    ),
    "a model that no memory holds": (
        ["--bert_config_file=HOME/deep.json"],
        r"does not fit in memory: .* are available, but .*num_hidden_layers 9999",
    ),
    "a model that no memory holds, in a dry run": (
        ["--bert_config_file=HOME/deep.json", "-do_train", "--dry_run"],
        r"does not fit in memory: .* are available, but .*num_hidden_layers 9999",
    ),
    "more layers than anybody has": (
        ["--bert_config_file=HOME/layers.json"],
        r"layers\.json: num_hidden_layers must be at most 10,000; got 1000000000\.",
    ),
    "a vocabulary that contradicts the configuration": (
        ["--bert_config_file=HOME/few.json"],
        rf"does not match the embedding table of {FEW} rows: HOME/vocab\.txt has {len(tiny.VOCAB)} tokens\. Use the",
    ),
    "rows beyond the positions": (
        ["--bert_config_file=HOME/positions.json"],
        rf"--max_seq_length must be at most 16, max_position_embeddings of the checkpoint; got {LENGTH}\.",
    ),
    "masked LM for a left-to-right model": (
        ["--bert_config_file=HOME/left.json"],
        r"--objective must be left_to_right for a causal model .*got masked_lm\. Pass --objective=left",
    ),
    "a generator as large as the discriminator": (
        ["--objective=electra", "--generator_size=1"],
        r"must be smaller than the discriminator.* got --generator_size=1\.0: 8,192 weights in its layers, and",
    ),
    "a generator without a discriminator": (
        ["--generator_size=0.5"],
        r"--generator_size requires --objective=electra; got --objective=masked_lm\. Change",
    ),
    "no configuration": (
        ["--bert_config_file=HOME/none.json"],
        r"File not found: HOME/none\.json \(--bert_config_file\)\. Check its spelling",
    ),
    "a damaged checkpoint": (
        ["--init_checkpoint=HOME/cut"],
        r"cut/bert_model\.ckpt is not a complete TF1 checkpoint .*Copy it again, or use an older checkpoint",
    ),
    "a micro-batch that does not divide": (
        ["--gradient_accumulation_steps=3"],
        r"must be a positive multiple of 3: 1 replica times --gradient_accumulation_steps=3; got 16\.",
    ),
    "nothing to do": (
        ["-do_train"],
        r"Nothing to do: pass at least one of --do_train, --do_eval, --dry_run\.",
    ),
    "scoring what was never trained": (
        ["-do_train", "--do_eval"],
        r"No trained model found: HOME/out contains no checkpoint, and --init_checkpoint is not set\. ",
    ),
    "beginning anew without training": (
        ["-do_train", "--do_eval", "--overwrite_output_dir"],
        r"--overwrite_output_dir requires --do_train\. Add --do_train, or remove",
    ),
    "an argument that is no flag": (["train.tfrecord"], r"must have the form --flag=value; got 'train"),
    "ids beyond the embedding table": (
        ["--input_file=HOME/foreign.tfrecord", "--bert_config_file=HOME/few.json", "--vocab_file=HOME/few.txt"],
        rf"Record \d+ of HOME/foreign\.tfrecord must have (input_ids|masked_lm_ids) from 0 to {FEW - 1}\b.*"
        r"got \d+; the records were made with another vocabulary",
    ),
    "a file cut in the middle": (
        ["--input_file=HOME/train.tfrecord,HOME/half.tfrecord"],
        r"HOME/half\.tfrecord is not a complete record file: it cannot be read from record \d+ on.* Cop",
    ),
}  # fmt: skip


def _make(folder):
    support.write_material(folder, ("train", "short", "packed", "alone", "unmasked", "unmasked_alone"))
    (folder / "columns.tsv").write_text("the\tfilm\n", encoding="utf-8")
    whole = (folder / "train.tfrecord").read_bytes()
    (folder / "half.tfrecord").write_bytes(whole[: len(whole) // 2])
    _make_mix_ups(folder)
    shape = {"num_hidden_layers": 1}
    tiny.config(hidden_size=64, **shape).save(folder / "wide.json")
    deep = tiny.config(hidden_size=8192, num_hidden_layers=9999)
    deep.save(folder / "deep.json")
    text = (folder / "deep.json").read_text(encoding="utf-8").replace("9999", "1000000000")
    (folder / "layers.json").write_text(text, encoding="utf-8")
    tiny.config(vocab_size=FEW, **shape).save(folder / "few.json")
    tiny.config(is_decoder=True, **shape).save(folder / "left.json")
    tiny.config(max_position_embeddings=16, **shape).save(folder / "positions.json")
    (folder / "few.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB[:FEW]), encoding="utf-8")
    tiny.checkpoint(folder / "init", **shape)
    data = tiny.checkpoint(folder / "cut", **shape) / "bert_model.ckpt.data-00000-of-00001"
    os.truncate(data, data.stat().st_size // 2)
    return folder


def _make_mix_ups(folder):
    """Writes records and vocabularies that do not go with train.tfrecord and vocab.txt, though they look alike."""
    shutil.copy(folder / "train.txt", folder / "swapped.txt")
    support.write_records(folder, "swapped", sentence_objective="sop")
    rows = list(tf.data.TFRecordDataset(str(folder / "train.tfrecord")).as_numpy_iterator())
    _, *others = rows  # of which none says how they were made
    _write(folder / "foreign.tfrecord", others)
    (folder / "empty").mkdir()
    (folder / "empty" / "report.txt").write_text("no records", encoding="utf-8")
    (folder / "cut_short").mkdir()
    _write(folder / "cut_short" / "train.tfrecord", rows[:-5])
    shutil.copy(folder / "train_records.json", folder / "cut_short")
    pieces = list(tiny.VOCAB)
    pieces[-1], pieces[-2] = pieces[-2], pieces[-1]
    moved = [pieces[0], pieces[1], pieces[4], pieces[3], pieces[2], *pieces[5:]]
    for name, its_pieces in (("other", pieces), ("moved", moved)):
        (folder / f"{name}.txt").write_text("".join(f"{piece}\n" for piece in its_pieces), encoding="utf-8")


def _write(path, rows):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(row)


def _arguments(home, changes):
    """Returns the command line of a good run with `changes`, of which -NAME takes --NAME away."""
    taken = [f"-{change}" for change in changes if re.match("-[^-]", change)]
    added = [change.replace("HOME", str(home)) for change in changes if f"-{change}" not in taken]
    usual = [f"--output_dir={home}/out", "--num_train_steps=3", "--save_checkpoints_steps=2", *added]
    names = [flag.split("=")[0] for flag in usual]
    last = [flag for n, flag in enumerate(usual) if names[n] not in names[n + 1 :]]
    return [flag for flag in support.arguments(home, *last) if flag.split("=")[0] not in taken]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """HOME, and what every case said, all in one process, of which none may make or change a file."""
    home = _make(tmp_path_factory.mktemp("bad_input"))
    before = files(home)
    cases = {name: _arguments(home, changes) for name, (changes, _) in BAD.items()}
    results = support.run_cases(cases)
    assert files(home) == before
    assert not (home / "out").exists()
    return home, results


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_one_clear_message(said, name):
    (home, results), (_, message) = said, BAD[name]
    log = results[name]["log"]
    assert results[name]["status"] == 1, log
    assert "Traceback" not in log and len(re.findall(r"^([\d:]+ )?Error: ", log, re.M)) == 1, log
    assert re.search(message.replace("HOME", re.escape(str(home))), log), log
