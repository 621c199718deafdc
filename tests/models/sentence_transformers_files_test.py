"""What a sentence-transformers directory says, in the files of old versions and of new ones; and what we lack."""

import pytest

from bert_tf.models.cross_encoder_files import read_activation, reranker_length
from bert_tf.models.sentence_transformers_files import MODES, Dense, PoolingConfig, pooling_settings, read_recipe
from bert_tf.utils.names import POOLINGS
from tests.sentence_folders import NEW, OLD, PLAIN, write


def test_a_plain_directory(tmp_path):
    assert read_recipe(str(tmp_path)) is None
    assert read_recipe(write(tmp_path)) == PoolingConfig()


@pytest.mark.parametrize("package", [OLD, NEW], ids=["old", "new"])
def test_modules_in_their_order(package, tmp_path):
    modules = (*PLAIN, ("Normalize", "2_Normalize"), ("Dense", "3_Dense"), ("Normalize", "4_Normalize"))
    activation = "torch.nn.modules.activation.GELU"
    dense = {"in_features": 4, "out_features": 3, "bias": False, "activation_function": activation}
    recipe = read_recipe(write(tmp_path, modules, package, **{"3_Dense__config": dense}))
    assert recipe.steps == (None, Dense("3_Dense", 3, False, "GELU")) and recipe.normalize


def test_settings_of_length_case_and_prompts(tmp_path):
    prompts = {"prompts": {"query": "ask: ", "document": None}, "default_prompt_name": "query", "truncate_dim": 9}
    path = write(tmp_path, sentence_bert_config={"max_seq_length": 77, "do_lower_case": True},
                 config_sentence_transformers=prompts, **{"1_Pooling__config": {"include_prompt": False}})  # fmt: skip
    assert read_recipe(path) == PoolingConfig(
        max_seq_length=77, lower=True, include_prompt=False, prompts={"query": "ask: "}, default_prompt="query", dim=9
    )


@pytest.mark.parametrize(
    ("prompts", "default", "expected"),
    [
        ({}, None, ("", "", "")),
        ({"query": "q: ", "corpus": "c: ", "passage": "p: "}, None, ("", "q: ", "p: ")),
        ({"query": "q: ", "STS": "s: "}, "STS", ("s: ", "q: ", "s: ")),
        ({"query": "", "document": "d: ", "passage": "p: "}, "passage", ("p: ", "", "d: ")),
    ],
)
def test_the_prompt_of_each_kind_of_text(prompts, default, expected):
    recipe = PoolingConfig(prompts=prompts, default_prompt=default)
    assert tuple(map(recipe.prompt_for, (None, "query", "document"))) == expected


def test_what_sentence_transformers_5_writes(tmp_path):
    text = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    transformer = {"transformer_task": "feature-extraction", "modality_config": text}
    prompts = {"__version__": {}, "default_prompt_name": None, "model_type": "SentenceTransformer", "prompts": {},
               "similarity_fn_name": "cosine"}  # fmt: skip
    pooling = {"embedding_dimension": 4, "pooling_mode": "mean", "include_prompt": True}
    files = {"sentence_bert_config": {**transformer, "module_output_name": "token_embeddings"},
             "config_sentence_transformers": prompts, "1_Pooling__config": pooling}  # fmt: skip
    assert read_recipe(write(tmp_path, **files)) == PoolingConfig()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config_sentence_transformers": {"truncate_dim": 0}}, "truncate_dim in .* must be 1 or more; got 0"),
        ({"config_sentence_transformers": {"model_type": "SparseEncoder"}}, "is a SparseEncoder, which has sparse "),
        ({"sentence_bert_config": {"module_output_name": "sentence"}}, "module_output_name in .* 'token_embeddings'"),
        ({"sentence_bert_config": {"processing_kwargs": {"text": {}}}}, "processing_kwargs in .* must be absent"),
        ({"sentence_bert_config": {"modality_config": {"image": {}}}}, "modality_config in .* must be absent"),
        ({"sentence_bert_config": {"query_length": 9}}, "query_length in .* must be absent; got 9"),
        ({"sentence_bert_config": {"model_args": {"a": 1}}}, "model_args in .* must be absent or {}, the only"),
        (
            {"1_Pooling__config": {"median": True}},
            "must have no other keys .*got 'median'",
        ),
        ({"2__config": {"out_features": 4, "gate": 1}}, r"2.config.json must have no other keys .*got 'gate'"),
        ({"2__config": {"module_input_name": "token_embeddings"}}, "module_input_name in .* 'sentence_embedding', the"),
        ({"3__config": {"module_output_name": "x"}}, "module_output_name in .*3.config.json must be absent or"),
        ({"3__config": {"p": 1}}, r"3.config.json must have no other keys .*got 'p'"),
    ],
)
def test_settings_that_make_other_vectors_are_refused(files, message, tmp_path):
    modules = (*PLAIN, ("Dense", "2"), ("Normalize", "3"))
    with pytest.raises(ValueError, match=message):
        read_recipe(write(tmp_path, modules, **{"2__config": {"out_features": 4}, **files}))


def test_keys_that_nobody_knows_are_named(tmp_path, caplog):
    modules = [{"type": f"{OLD}{kind}", "path": path, "kwargs": [], "gate": 1} for kind, path in PLAIN]
    files = {"modules": modules, "sentence_bert_config": {"pace": 1}, "config_sentence_transformers": {"mood": 1}}
    assert read_recipe(write(tmp_path, **files)) == PoolingConfig()
    for name, key in (("modules", "gate"), ("sentence_bert_config", "pace"), ("config_sentence_transformers", "mood")):
        assert f"{name}.json: unknown settings are ignored: {key}." in caplog.text


def test_what_sentence_transformers_6_writes(tmp_path):
    names = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
    dense = {"in_features": 4, "out_features": 3, "bias": True, "use_residual": True, **names}
    path = write(tmp_path, (*PLAIN, ("Dense", "2"), ("Normalize", "3")), **{"2__config": dense, "3__config": names})
    assert read_recipe(path) == PoolingConfig(steps=(Dense("2", 3, True, "Tanh", True),), normalize=True)


_CROSS = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"}


@pytest.mark.parametrize(
    ("modules", "files", "message"),
    [
        ((*PLAIN, ("Dense", "2")), {}, "with several modules are not supported, .*got .*modules.json, "
         "which lists Transformer, Pooling, Dense; train a supported one with `bert-tf train reranker`"),
        (PLAIN[:1], {"transformer_task": "text-generation"}, "transformer_task in .* 'sequence-classification'"),
        (PLAIN[:1], {"do_lower_case": True}, "do_lower_case in .*sentence_bert_config.json must be absent or False"),
    ],
)  # fmt: skip
def test_cross_encoders_that_we_do_not_have(modules, files, message, tmp_path):
    path = write(tmp_path, modules, sentence_bert_config=files, config_sentence_transformers=_CROSS)
    for read in (lambda: read_activation(path, {}), lambda: reranker_length(path)):
        with pytest.raises(ValueError, match=message):
            read()


def test_a_cross_encoder_with_its_module(tmp_path, caplog):
    text = {"text": {"method": "forward", "method_output_name": "logits"}}
    module = {"transformer_task": "sequence-classification", "modality_config": text, "module_output_name": "scores"}
    files = {
        "sentence_bert_config": module | {"max_seq_length": 9},
        "config_sentence_transformers": _CROSS | {"mood": 1},
    }
    path = write(tmp_path, PLAIN[:1], **files)
    assert read_activation(path, {}) == "identity" and reranker_length(path) == 9
    assert "config_sentence_transformers.json: unknown settings are ignored: mood." in caplog.text
    with pytest.raises(ValueError, match="is a CrossEncoder, which scores pairs of texts and has no embeddings"):
        read_recipe(path)


def test_the_length_may_be_the_tokenizers(tmp_path):
    assert read_recipe(write(tmp_path, tokenizer_config={"model_max_length": 99})).max_seq_length == 99
    assert read_recipe(write(tmp_path, tokenizer_config={"model_max_length": 1e30})).max_seq_length is None


def test_the_encoder_may_lie_in_a_folder(tmp_path):
    modules = (("Transformer", "0_Transformer"), ("Pooling", "1_Pooling"))
    path = write(tmp_path, modules, **{"0_Transformer__sentence_roberta_config": {"max_seq_length": 5}})
    assert read_recipe(path) == PoolingConfig(max_seq_length=5, folder="0_Transformer")


@pytest.mark.parametrize(
    ("values", "poolings"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ("cls",)),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, ("max", "mean")),
        ({"pooling_mode_weightedmean_tokens": True, "pooling_mode_lasttoken": True}, ("weighted_mean", "last_token")),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, ("mean_sqrt_len",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ({}, ("mean",)),
    ],
)
def test_poolings(values, poolings, tmp_path):
    assert read_recipe(write(tmp_path, **{"1_Pooling__config": values})).poolings == poolings


@pytest.mark.parametrize("poolings", [*((name,) for name in POOLINGS), ("cls", "mean"), ("mean", "cls")])
def test_what_is_written_is_read(poolings, tmp_path):
    parts = tuple(part for name in poolings for part in (("mean", "max") if name == "mean_max" else (name,)))
    written = pooling_settings(poolings, 8)
    assert read_recipe(write(tmp_path, **{"1_Pooling__config": written})).poolings == parts
    assert ("pooling_mode" in written) == (list(parts) != [name for name in MODES.values() if name in parts])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules": [{"type": f"{OLD}CNN", "path": ""}]}, "begin with a Transformer and a Pooling; got CNN"),
        ({"modules": []}, "begin with a Transformer and a Pooling"),
        ({"modules": [*({"type": OLD + k, "path": p} for k, p in PLAIN), {"type": f"{OLD}LSTM", "path": "2"}]},
         "modules.json must be Transformer, Pooling, Dense or Normalize .*got 'LSTM'"),
        ({"modules": [{"type": "mine.Pooling", "path": ""}]}, "got 'mine.Pooling'"),
        ({"modules": [{"type": f"{OLD}Pooling", "path": "../x"}]}, "`path` next to it; got the path '../x'"),
        ({"1_Pooling__config": {"pooling_mode": "median"}}, "must use supported poolings: .*"
         r"got pooling_mode=\['median'\]"),
        ({"sentence_bert_config": {"max_seq_length": "long"}}, "max_seq_length in .* must be of type int; got "),
        ({"sentence_bert_config": {"transformer_task": "fill-mask"}}, "must describe an encoder"),
        ({"config_sentence_transformers": {"default_prompt_name": "query"}}, "including query, the default"),
    ],
)  # fmt: skip
def test_what_we_do_not_have_is_named(files, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_recipe(write(tmp_path, **files))
