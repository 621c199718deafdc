"""The settings of SparseEncoders: those of every version of sentence-transformers, and what is refused."""

import pytest

from bert_tf.models.sentence_transformers_files import read_recipe
from bert_tf.models.sparse_encoder_files import SpladeConfig, read_sparse_config
from tests.sentence_folders import NEW, PLAIN, write

OLD = (("MLMTransformer", ""), ("SpladePooling", "1_SpladePooling"))
LATER = (("Transformer", ""), OLD[1])
FILL_MASK = {"transformer_task": "fill-mask", "module_output_name": "token_embeddings",
             "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}}  # fmt: skip
POOLING = "1_SpladePooling__config"


def test_the_files_of_version_5_0(tmp_path):
    files = {"sentence_bert_config": {"max_seq_length": 256, "do_lower_case": False},
             POOLING: {"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": 30522},
             "config_sentence_transformers": {"model_type": "SparseEncoder", "prompts": {"query": "", "document": ""},
                                              "default_prompt_name": None, "similarity_fn_name": "dot"}}  # fmt: skip
    expected = SpladeConfig(max_seq_length=256, prompts={"query": "", "document": ""})
    assert read_sparse_config(write(tmp_path, OLD, **files)) == expected


def test_the_files_of_version_5_4(tmp_path):
    files = {"sentence_bert_config": FILL_MASK, "tokenizer_config": {"model_max_length": 128},
             POOLING: {"pooling_strategy": "sum", "activation_function": "log1p_relu", "embedding_dimension": None},
             "config_sentence_transformers": {"prompts": {"a": "b "}, "default_prompt_name": "a"}}  # fmt: skip
    expected = SpladeConfig("sum", "log1p_relu", max_seq_length=128, prompts={"a": "b "}, default_prompt="a")
    assert read_sparse_config(write(tmp_path, LATER, NEW, **files)) == expected


def test_other_directories_have_no_such_settings(tmp_path):
    assert read_sparse_config(str(tmp_path)) is None
    assert read_sparse_config(write(tmp_path)) is None


@pytest.mark.parametrize(
    ("kinds", "files", "message"),
    [
        ((*OLD, ("Normalize", "2")), {}, "must consist of .* lists MLMTransformer, SpladePooling, Normalize, which"),
        ((("Transformer", ""), ("Pooling", "1_Pooling"), ("SparseAutoEncoder", "2")),
         {"config_sentence_transformers": {"model_type": "SparseEncoder"}}, "lists Transformer, Pooling, SparseAuto"),
        (LATER, {"sentence_bert_config": {}}, "transformer_task in .* must be 'fill-mask', .* got None"),
        (LATER, {"sentence_bert_config": {"transformer_task": "feature-extraction"}}, "got 'feature-extr"),
        (OLD, {POOLING: {"pooling_strategy": "mean"}}, "pooling_strategy in .* must be one of max, sum; got 'me"),
        (OLD, {POOLING: {"activation_function": "gelu"}}, "activation_function in .* one of relu, log1p_relu; got"),
        (OLD, {POOLING: {"top_k": 1}}, "must have no other keys .* got 'top_k'"),
    ],
)  # fmt: skip
def test_what_makes_other_vectors_is_refused(kinds, files, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_sparse_config(write(tmp_path, kinds, **{POOLING: {}, **files}))


def test_there_are_no_dense_embeddings(tmp_path):
    for kinds, files in ((OLD, {}), (PLAIN, {"config_sentence_transformers": {"model_type": "SparseEncoder"}})):
        with pytest.raises(ValueError, match="is a SparseEncoder, which has sparse embeddings instead of dense"):
            read_recipe(write(tmp_path, kinds, **files))
