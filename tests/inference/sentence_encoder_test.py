"""Vectors as a model's folder asks for them: modules by hand, prompts, what may be wanted otherwise; the programs."""

import functools
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

import bert_tf
from bert_tf.cli import embed
from bert_tf.inference.sentence_encoder import SentenceEncoder, identity_of, make_finish, with_prompt
from bert_tf.inference.settings import EncodeOptions
from bert_tf.models.sentence_transformers_files import Dense
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.utils.settings import Settings
from tests import run_cases, tiny
from tests.fake_pandas import DataFrame, Series
from tests.sentence_folders import PLAIN, write

TEXTS = ["good film", "the Film is dull , cold and empty .", "music"]


@pytest.fixture(scope="module", autouse=True)
def _eagerly():
    """Tracing each folder's encoder for a few sentences would be most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A sentence-transformers directory of two layers: the mean, and no more."""
    folder = tmp_path_factory.mktemp("plain")
    path = tiny.checkpoint(folder / "tf1", num_hidden_layers=2)
    bert_tf.save(bert_tf.load(path), folder / "st", "sentence_transformers")
    return folder / "st"


@pytest.fixture(scope="module")
def bert(plain):
    return bert_tf.load(plain)


@pytest.fixture(scope="module")
def prompted(plain, tmp_path_factory):
    """The same directory with a prompt for queries and one for documents, which is the default."""
    prompts = {"prompts": {"query": "see it : ", "document": "story "}, "default_prompt_name": "document"}
    return changed(plain, tmp_path_factory.mktemp("prompted"), config_sentence_transformers=prompts)


def changed(plain, tmp_path, kinds=PLAIN, **files):
    """Copies the directory and writes other modules into it."""
    return write(pathlib.Path(shutil.copytree(plain, tmp_path / "model")), kinds, **files)


def normalized(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_the_mean_without_further_words(plain, bert):
    encoder = SentenceEncoder(plain)
    np.testing.assert_allclose(encoder(TEXTS), bert.features(TEXTS), atol=1e-6)
    assert encoder.width == 32 and encoder(TEXTS).dtype == np.float32 and encoder([]).shape == (0, 32)
    for given in (iter(TEXTS), Series(TEXTS, [2, 0, 1])):
        np.testing.assert_array_equal(encoder(given), encoder(TEXTS))
    with pytest.raises(ValueError, match="got a DataFrame of text; choose one of them"):
        encoder(DataFrame({"text": TEXTS}))


@pytest.mark.slow
def test_every_module(plain, bert, tmp_path):
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(5, 64)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    kinds = (*PLAIN, ("Normalize", "2"), ("Dense", "3"), ("Normalize", "4"))
    dense = {"in_features": 64, "out_features": 5, "activation_function": "torch.nn.modules.activation.Tanh"}
    path = changed(plain, tmp_path, kinds, sentence_bert_config={"max_seq_length": 5},
                   **{"1_Pooling__config": {"pooling_mode": ["max", "cls"]}, "3__config": dense})  # fmt: skip
    save_file({"linear.weight": weight, "linear.bias": bias}, f"{path}/3/model.safetensors")
    pieces = [each.values for each in bert.features(TEXTS, pooling=None, max_seq_length=5)]
    pooled = np.stack([np.concatenate([values.max(0), values[0]]) for values in pieces])
    expected = normalized(np.tanh(normalized(pooled) @ weight.T + bias))
    np.testing.assert_allclose(SentenceEncoder(path)(TEXTS), expected, atol=1e-5)
    assert SentenceEncoder(path).width == 5
    with pytest.raises(ValueError, match="produce the 64 dimensions that .*model.safetensors expects, not 32. Remove"):
        SentenceEncoder(path, pooling="mean")(TEXTS)


def test_options_override_the_folder(plain, bert):
    encoder = SentenceEncoder(plain, layers="second_to_last", pooling=["cls", "mean"], normalize=True, max_seq_length=4)
    pieces = bert.features(TEXTS, layers="second_to_last", pooling=None, max_seq_length=4)
    expected = [np.concatenate([each.values[0], each.values.mean(0)]) for each in pieces]
    np.testing.assert_allclose(encoder(TEXTS), normalized(np.array(expected)), atol=1e-5)


NORMALIZED = (*PLAIN, ("Normalize", "2_Normalize"))


@pytest.mark.parametrize(
    ("similarity", "kinds", "warned"),
    [
        *((None, PLAIN, False), ("cosine", PLAIN, False), ("dot", NORMALIZED, False)),
        *(("dot", PLAIN, True), ("euclidean", NORMALIZED, True), ("manhattan", NORMALIZED, True)),
    ],
)
def test_another_similarity_than_the_cosine_is_warned_of(similarity, kinds, warned, plain, bert, tmp_path, caplog):
    path = changed(plain, tmp_path, kinds)
    identity = identity_of(path, EncodeOptions())
    write(tmp_path / "model", kinds, config_sentence_transformers={"similarity_fn_name": similarity})
    assert identity_of(path, EncodeOptions()) == identity  # the vectors are the same
    with_prompt(path, EncodeOptions(), None)
    assert "similarity_fn_name" not in caplog.text  # nothing is compared
    for _ in range(2):
        with_prompt(path, EncodeOptions(), "document")
    shutil.copytree(path, tmp_path / "start")
    start = EmbeddingOptions(init_checkpoint=str(tmp_path / "start"), do_eval=True)
    EmbeddingTask.create(bert, None, start, None)
    found = [record.args for record in caplog.records if "has similarity_fn_name=" in record.getMessage()]
    assert found == [(path, similarity), (start.init_checkpoint, similarity)] * warned


@pytest.mark.parametrize(
    ("prompts", "default", "warned"),
    [
        ({"search_query": "see it : ", "search_document": "story ", "none": ""}, None, True),
        *(({"search_query": "see it : "}, "search_query", False), ({"query": "see ", "STS": "it "}, None, False)),
        *(({"none": ""}, None, False), ({}, None, False)),
    ],
)
def test_prompts_whose_names_say_nothing_are_warned_of(prompts, default, warned, plain, bert, tmp_path, caplog):
    settings = {"prompts": prompts, "default_prompt_name": default}
    path = changed(plain, tmp_path, config_sentence_transformers=settings)
    name = next(iter(prompts), None)
    for options in (EncodeOptions(prompt=""), EncodeOptions(prompt_name=name)) if name else ():
        with_prompt(path, options, "document")
    with_prompt(path, EncodeOptions(), None)
    start = str(shutil.copytree(path, tmp_path / "start"))
    for given in ("", None):
        assert "has the prompts" not in caplog.text  # nothing has been left to the model yet
        EmbeddingTask.create(bert, None, EmbeddingOptions(init_checkpoint=start, prompts=given), None)
    for kind in ("document", "query"):
        with_prompt(path, EncodeOptions(), kind)
    found = [record.args for record in caplog.records if "has the prompts" in record.getMessage()]
    assert [args[:2] for args in found] == [(each, "search_query, search_document") for each in (start, path)] * warned
    assert [args[3].split("`")[1] for args in found] == ["prompts", "prompt_name"] * warned


def test_a_call_may_choose_a_prompt_and_similarities_are_cosines(prompted, bert):
    encoder = SentenceEncoder(prompted)
    documents, queries = encoder.encode(TEXTS), encoder.encode(TEXTS[:2], prompt_name="query")
    np.testing.assert_array_equal(documents, encoder(TEXTS))
    for prompt, vectors in (("story ", documents), ("see it : ", queries)):
        np.testing.assert_allclose(
            vectors, bert.features([prompt + text for text in TEXTS[: len(vectors)]]), atol=1e-6
        )
    expected = normalized(queries) @ normalized(documents).T
    np.testing.assert_allclose(encoder.similarity(queries, documents), expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"must have \d+ columns, the width of this encoder; got 3 and \d+"):
        encoder.similarity(queries[:, :3], documents)
    with pytest.raises(ValueError, match="one of the model's prompts: query, document; got 'passage'"):
        encoder.encode(TEXTS, prompt_name="passage")


def test_the_prompt_is_the_caller_s_or_the_default(prompted):
    given = {options: SentenceEncoder(prompted, **dict([options])).prompt for options in
             (("layers", None), ("prompt_name", "query"), ("prompt", "the "), ("prompt", ""))}  # fmt: skip
    assert list(given.values()) == ["story ", "see it : ", "the ", ""]
    with pytest.raises(ValueError, match="one of the model's prompts: query, document; got 'passage'"):
        SentenceEncoder(prompted, prompt_name="passage")
    with pytest.raises(ValueError, match="cannot be combined"):
        SentenceEncoder(prompted, prompt_name="query", prompt="x")


@pytest.mark.slow
def test_a_directory_may_ask_for_shorter_vectors(plain, bert, tmp_path):
    cut = bert.features(TEXTS)[:, :9]
    for kinds, expected in ((PLAIN, cut), ((*PLAIN, ("Normalize", "2_Normalize")), normalized(cut))):
        path = changed(plain, tmp_path / str(len(kinds)), kinds, config_sentence_transformers={"truncate_dim": 9})
        encoder = SentenceEncoder(path)
        assert encoder.width == 9
        np.testing.assert_allclose(encoder(TEXTS), expected, atol=1e-6)
        assert SentenceEncoder(path, dim=12).width == 12
        assert identity_of(path, EncodeOptions()) == identity_of(path, EncodeOptions(dim=9))


@pytest.mark.slow
def test_a_prompt_that_is_not_pooled(plain, bert, tmp_path):
    modes = {"pooling_mode": ["mean", "cls", "weightedmean", "max"], "include_prompt": False}
    values = bert.features(["see it : good film"], pooling=None)[0].values[4:]  # [CLS] see it [UNK]
    places = np.arange(5, 5 + len(values))[:, None]
    by_hand = [values.mean(0), values[0], (values * places).sum(0) / places.sum(), values.max(0)]
    path = changed(plain, tmp_path, **{"1_Pooling__config": modes})
    vectors = SentenceEncoder(path, prompt="see it : ")(["good film"])
    np.testing.assert_allclose(vectors[0], np.concatenate(by_hand), atol=1e-5)


def test_the_identity_is_of_the_files_and_the_recipe(plain, tmp_path):
    one = identity_of(str(plain), EncodeOptions())
    assert one == json.loads(json.dumps(one)) and one != identity_of(str(plain), EncodeOptions(pooling="max"))
    assert one == identity_of(str(plain), EncodeOptions(prompt="x"))
    other = tiny.checkpoint(tmp_path / "other")
    assert identity_of(str(other), EncodeOptions())["weights"] != one["weights"]
    kinds, dense = (*PLAIN, ("Dense", "2")), {"in_features": 32, "out_features": 5, "bias": False}
    path = changed(plain, tmp_path, kinds, **{"2__config": dense})
    trained = []
    for number in range(2):
        save_file({"linear.weight": np.full([5, 32], number, np.float32)}, f"{path}/2/model.safetensors")
        trained.append(identity_of(path, EncodeOptions()))
    assert [name for name, value in trained[0].items() if trained[1][name] != value] == ["steps"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules": [*({"type": f"sentence_transformers.models.{k}", "path": p} for k, p in PLAIN),
                      {"type": "sentence_transformers.models.LSTM", "path": "2"}]},
         "got 'LSTM', which bert_tf does not support"),
        ({"1_Pooling__config": {"pooling_mode": "median"}}, "must use supported poolings"),
    ],
)  # fmt: skip
def test_folders_that_ask_for_what_we_do_not_have(files, message, plain, tmp_path):
    with pytest.raises(ValueError, match=message):
        SentenceEncoder(changed(plain, tmp_path, **files))


@pytest.mark.parametrize("width", [4, 3])
def test_a_dense_module_may_add_its_input(width, tmp_path):
    """As in sentence-transformers 6.2, by a map where the widths differ."""
    vectors, weight, residual = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(np.float32)
    weight, residual = weight[:width], residual[:width]
    own = {"residual.weight": residual} if width != 4 else {}
    save_file({"linear.weight": weight, **own}, tmp_path / "model.safetensors")
    finish = functools.partial(make_finish, str(tmp_path), [Dense("", width, False, "Tanh", True)], None)
    expected = np.tanh(vectors @ weight.T) + (vectors @ residual.T if own else vectors)
    np.testing.assert_allclose(finish()(vectors), expected, atol=1e-6)
    if own:
        save_file({"linear.weight": weight}, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match="must contain linear.weight and residual.weight of a linear map to 3 "):
            finish()


def test_activations_that_we_do_not_have(plain, tmp_path):
    dense = {"in_features": 32, "out_features": 5, "activation_function": "mine.Swish"}
    path = changed(plain, tmp_path, (*PLAIN, ("Dense", "2_Dense")), **{"2_Dense__config": dense})
    with pytest.raises(ValueError, match="must be one of Tanh, .*2_Dense has mine.Swish, which is not"):
        SentenceEncoder(path)


def test_unknown_poolings_and_layers_are_refused(plain):
    with pytest.raises(ValueError, match="`pooling` must be one or several of .*got 'median'"):
        SentenceEncoder(plain, pooling="median")
    with pytest.raises(ValueError, match="`layers` must be one of .*got 'top'"):
        SentenceEncoder(plain, layers="top")


def test_embed_writes_the_vectors(plain, bert, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    words = [f"--model={plain}", f"--input_file={tmp_path}/texts.txt", f"--output_file={tmp_path}/out.npz"]
    done = run_cases.run_here("embed", [*words, "--prompt=see "])
    assert done["status"] == 0, done["log"]
    expected = bert.features([f"see {text}" for text in TEXTS])
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["embeddings"], expected, atol=1e-6)


def test_vectors_go_to_a_file_or_to_an_index():
    for given, received in (({}, "neither"), ({"output_file": "a.npz", "index_dir": "b"}, "both")):
        settings = Settings({flag.name: flag.default for flag in embed.FLAGS} | given, given)
        with pytest.raises(ValueError, match=f"either `output_file` or `index_dir`; got {received}"):
            embed.main(settings)
