"""The schema: names and types that files, batches, models and requests share."""

from bert_tf.data import features


def test_names_types_and_shapes_are_the_promised_ones():
    promised = {
        ("int32", "token"): "input_ids input_mask segment_ids context_mask sentence_ids unmasked_ids tag_ids",
        ("int32", "prediction"): "masked_lm_positions masked_lm_ids",
        ("float32", "prediction"): "masked_lm_weights sampling_draws",
        ("int32", "sentence"): "next_sentence_labels next_sentence_positions",
        ("float32", "sentence"): "next_sentence_weights",
        ("int32", "example"): "label_ids start_positions end_positions",
        ("float32", "example"): "label_values is_real_example sample_weights",
        ("float32", "document"): "relevances",
    }
    names = {name: kind for kind, several in promised.items() for name in several.split()}
    assert {f.name: (f.dtype, f.per) for f in features.FEATURES.values()} == names
    assert all(name == feature.name for name, feature in features.FEATURES.items())
    assert features.ENCODER_INPUTS == ("input_ids", "input_mask", "segment_ids")


def test_keras_inputs_follow_the_schema():
    inputs = features.keras_inputs(("input_ids", "label_values", "masked_lm_weights", "next_sentence_labels"))
    assert [(i.name, i.shape, i.dtype) for i in inputs.values()] == [
        ("input_ids", (None, None), "int32"),
        ("label_values", (None,), "float32"),
        ("masked_lm_weights", (None, None), "float32"),
        ("next_sentence_labels", (None, None), "int32"),
    ]


def test_padding_is_the_vocabulary_s_or_the_feature_s():
    fill = {name: feature.padding_of(7) for name, feature in features.FEATURES.items()}
    assert {name: value for name, value in fill.items() if value} == {"input_ids": 7, "unmasked_ids": 7, "tag_ids": -1}
