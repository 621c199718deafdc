"""Dynamic masking: records without masks get theirs as they are read."""

import itertools

import numpy as np
import pytest

from bert_tf.data import tfrecords
from bert_tf.data.example_bytes import serialize
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.corpus import local_run
from bert_tf.pretraining.dynamic_masking import masker, masks_for, masks_identity
from bert_tf.pretraining.masking import Masking
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.tokenization.wordpiece_tables import WordPieceTables
from tests.pretraining.corpus import support

B, M = 16, 8
VOCABULARY = MaskingVocabulary.of_tokenizer(WordPieceTables(support.VOCAB))


@pytest.fixture(scope="module")
def unmasked(corpus, tmp_path_factory):
    """Packed records of one pass without masks, in two files; masks are drawn for padded ones in the same way."""
    folder = tmp_path_factory.mktemp("unmasked")
    paths = [str(folder / "0.tfrecord"), str(folder / "1.tfrecord.gz")]
    local_run.create_pretraining_data(support.job(corpus, paths, dynamic_masking=True, dupe_factor=1, packing=True))
    return Records.of(paths, 48, M)


def _masker(seed=1):
    return masker(Masking(max_predictions=M), VOCABULARY, seed)


def _take(batches, number):
    return [{name: v.numpy() for name, v in batch.items()} for batch in itertools.islice(batches, number)]


def _before(batch):
    """The ids as they were: those of the masked positions put back."""
    ids = batch["input_ids"].copy()
    row, column = np.nonzero(batch["masked_lm_weights"])
    ids[row, batch["masked_lm_positions"][row, column]] = batch["masked_lm_ids"][row, column]
    return ids


def _equal(one, other):
    return set(one) == set(other) and all((one[name] == other[name]).all() for name in one)


def test_what_is_known_of_records_without_masks(unmasked):
    assert not unmasked.masked and unmasked.max_predictions is None and unmasked.max_seq_length == 48
    (batch,) = _take(unmasked.batches(B, 0), 1)
    assert "masked_lm_ids" not in batch


@pytest.mark.slow
def test_a_resumed_run_gets_the_masks_that_would_have_come(unmasked):
    whole = _take(unmasked.batches(B, 3, masks=_masker()), 12)
    for start in (1, 7):
        rest = _take(unmasked.batches(B, 3, start, masks=_masker()), 12 - start)
        assert all(map(_equal, whole[start:], rest))
    other = _take(unmasked.batches(B, 3, masks=_masker(seed=2)), 12)
    assert not any(map(_equal, whole, other))


def test_masks_hide_what_the_law_says_and_nothing_else(unmasked):
    for batch in _take(unmasked.batches(B, 3, masks=_masker()), 12):
        tokens = batch["input_mask"].sum(1)
        assert (batch["masked_lm_weights"].sum(1) == np.minimum(M, np.maximum(1, np.round(0.15 * tokens)))).all()
        assert not VOCABULARY.special[batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]].any()
        assert {name: batch[name].dtype for name in ("input_ids", "masked_lm_positions", "masked_lm_ids")} == (
            dict.fromkeys(("input_ids", "masked_lm_positions", "masked_lm_ids"), np.int32)
        )


@pytest.mark.slow
def test_each_epoch_has_the_same_rows_with_other_masks(unmasked):
    number = len(_take(unmasked.in_order(1), 100_000))
    rows = _take(unmasked.batches(1, 3, masks=_masker()), 2 * number)
    first, second = ({_before(b).tobytes(): b["input_ids"].tobytes() for b in part} for part in _halves(rows))
    assert set(first) == set(second)
    assert sum(first[row] != second[row] for row in first) > 0.9 * len(first)


def _halves(rows):
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def test_held_out_rows_have_the_same_masks_each_time(unmasked):
    one, again = (_take(unmasked.in_order(B, 5, _masker()), 9) for _ in range(2))
    assert len(one) == 5 and all(map(_equal, one, again))
    plain = _take(unmasked.in_order(B, 5), 9)
    assert all((_before(a) == b["input_ids"]).all() for a, b in zip(one, plain, strict=True))


def test_records_with_masks_are_refused(tmp_path):
    ids, path = np.full((4, 8), 7), str(tmp_path / "masked.tfrecord")
    features = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    features |= dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), ids[:, :2])
    tfrecords.write_records(path, serialize(features | {"masked_lm_weights": np.ones((4, 2), np.float32)}))
    with pytest.raises(ValueError, match="requires records without masks, .* masked already, such as .*masked"):
        Records.of([path]).batches(2, 0, masks=_masker())


def test_a_vocabulary_without_a_mask_is_refused_at_once():
    pieces = MaskingVocabulary.of_tokenizer(WordPieceTables([n for n in support.VOCAB if n != "[MASK]"]))
    with pytest.raises(ValueError, match="requires a vocabulary with a mask token such as .MASK."):
        masker(Masking(), pieces, 1)


def test_the_identity_holds_what_decides_the_masks(tmp_path):
    usual = {"masking": "token", "masked_lm_prob": 0.15, "max_predictions_per_seq": M, "mask_token_prob": 0.8,
             "random_token_prob": 0.1}  # fmt: skip
    assert masks_identity(Masking(max_predictions=M), None) == usual
    shares = {"mask_token_prob": 0.7, "random_token_prob": 0.0}
    assert masks_identity(Masking(max_predictions=M, **shares), None) == usual | shares
    found = []
    for number, text in enumerate(("wak wal\n", "wak wal \n\n", "wak wam\n")):
        (tmp_path / str(number)).write_text(text)
        found.append(masks_identity(Masking("phrase"), str(tmp_path / str(number)))["phrases"])
    assert found[0] == found[1] != found[2]


@pytest.mark.slow
def test_settings_of_masks_reach_the_masks_and_phrases_that_never_occur_are_told(unmasked, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("absl.logging.warning", lambda text, *values: told.append(text % values))
    tokenizer = WordPieceTokenizer(support.VOCAB)
    for number, text in enumerate(("wak wal wam\n", "wak wak wak wak wak\n")):
        path = tmp_path / str(number)
        path.write_text(text)
        phrases = Masking("phrase", max_predictions=M, mask_token_prob=0.0, random_token_prob=1.0)
        draw = masks_for(phrases, str(path), tokenizer, [unmasked], unmasked.max_seq_length)(unmasked, 0)
        assert len(told) == number  # of the first one there is a phrase in the rows
    assert f"No phrase of {tmp_path}/1 occurs in the first " in told[0] and unmasked.paths[0] in told[0]
    for batch in _take(unmasked.batches(B, 3, masks=draw), 3):
        assert batch["masked_lm_weights"].sum() > 20 and not (batch["input_ids"] == VOCABULARY.mask_id).any()
    with pytest.raises(ValueError, match="`phrase_file` and `masking=phrase` require each other.* got a list and"):
        masks_for(Masking("ngram"), str(path), tokenizer, [unmasked], unmasked.max_seq_length)
    draw = masks_for(Masking(max_predictions=M), None, tokenizer, [unmasked], unmasked.max_seq_length // 2)
    (batch,) = _take(unmasked.batches(B, 3, masks=draw(unmasked, 0)), 1)
    assert batch["masked_lm_ids"].shape[1] == 2 * M  # the options are those of rows half as long
    draw = masks_for(Masking(max_predictions=M), None, tokenizer, [unmasked], 100 * unmasked.max_seq_length)
    (batch,) = _take(unmasked.batches(B, 3, masks=draw(unmasked, 0)), 1)
    assert batch["masked_lm_ids"].shape[1] == 1
