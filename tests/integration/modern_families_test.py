"""ModernBERT, DeBERTa and MPNet from a directory of Transformers' names through each task to exports, and to torch."""

import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import inspect
from bert_tf.checkpoints import adapters
from bert_tf.checkpoints.head_first_layers import MASKED_LM_LAYERS
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.checkpoints.model_directory import read_model_directory, write_edited_model
from bert_tf.checkpoints.writers import write_model
from bert_tf.inference.fill_mask import Filler
from bert_tf.inference.score_text import TextScorer
from bert_tf.interpret.lens import masked_lm_head
from bert_tf.interpret.page.contents import PageOptions, gather
from bert_tf.lite.predictor import LitePredictor
from bert_tf.models.config import EncoderConfig
from bert_tf.models.family_registry import family
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.tokenization.registry import read_tokenizer
from tests import other_envs, parity, tiny
from tests.processor import COMPUTES_INT8, needs_int8
from tests.run_cases import run_here
from tests.scripts import at, run_programs
from tests.tasks.embedding import support as embeddings
from tests.tasks.multiple_choice import support as choices
from tests.tasks.program_tests import json_lines
from tests.tasks.reranking import support as rankings

WORDS = ("the", "old", "keeper", "counted", "ships", "gulls", "and", "waves", "caf\u00e9", "cafe\u0301")
_SHAPE = {"hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 20, "num_hidden_layers": 3,
          "max_position_embeddings": 64, "initializer_range": 0.1}  # fmt: skip
# The family -> the folder of its tokenizer, and what its configuration has: narrower than the texts.
FAMILIES = {
    "modernbert": ("modernbert", {"local_attention": 8}),
    "deberta-v2": ("deberta", {
        "relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm",
        "pos_att_type": "p2c|c2p", "position_buckets": 8, "position_biased_input": False}),
    "mpnet": (None, {}),  # its vocabulary is that of `_wordpiece`
}
LENGTH = 56  # more than any of the texts has: torch truncates none
_LOADED = """
import json, sys, transformers
for kind, path in json.loads(sys.argv[1]):
    model, said = getattr(transformers, f"{sys.argv[3]}For{kind}").from_pretrained(path, output_loading_info=True)
    assert not said["missing_keys"] and not said["unexpected_keys"] and not said["mismatched_keys"], (kind, said)
classify = transformers.pipeline("text-classification", json.loads(sys.argv[1])[0][1], top_k=None)
print(json.dumps([{each["label"]: each["score"] for each in row} for row in classify(json.loads(sys.argv[2]))]))
"""


def _model(tmp_path_factory, model_type, tokenizer=None, **changes):
    """Writes a directory with a masked LM of random weights."""
    folder, row = tmp_path_factory.mktemp(model_type) / "model", family(model_type)
    name, settings = FAMILIES[model_type]
    name = tokenizer or name
    goldens = parity.GOLDENS / "tokenizers"
    vocabulary = goldens / name if name else _wordpiece(folder.parent / "vocabulary", row.template)
    tokenizer = read_tokenizer(str(vocabulary), row, row.template)
    sizes = {**_SHAPE, "vocab_size": tokenizer.vocab_size}
    config = EncoderConfig.from_dict({"model_type": model_type, **sizes, **settings, **changes})
    keras.utils.set_random_seed(1)
    model = Pretrainer(config, next_sentence=False)
    folder.mkdir()
    arrays = {v.path: np.array(v) for v in model.variables}
    write_model(str(folder), "huggingface", ModelArrays(config, arrays, tokenizer))
    return folder


def _wordpiece(folder, template):
    """Writes the words, in front of them the special tokens of a template, of which padding has the id 1."""
    folder.mkdir()
    special = dict.fromkeys((template.before[0], template.pad, template.after[-1], template.unknown, template.mask))
    pieces = dict.fromkeys([*special, *WORDS[:-1], "cafe", "hello", "he", "twelve", "what", "?", "."])
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=FAMILIES)
def start(request, tmp_path_factory):
    return _model(tmp_path_factory, request.param)


def _texts():
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randrange(1, 14))) for _ in range(32)]


def _squad():
    answer = {"text": "twelve gulls", "answer_start": 11}
    questions = [{"id": str(n), "question": "What?", "answers": [answer]} for n in range(8)]
    asked = {"context": "He counted twelve gulls.", "qas": questions}
    return {"version": "1", "data": [{"title": "a", "paragraphs": [asked]}]}


@pytest.mark.slow
def test_the_model_is_read_written_and_asked_again(start, tmp_path):
    bert = bert_tf.load(start)
    assert bert.config.classifier_act and not bert.config.has_pooler and bert.head is None
    assert {"cls/predictions/output_bias", "cls/predictions/transform/dense/kernel"} <= bert.others.keys()
    bert_tf.save(bert, tmp_path / "again", "huggingface")
    names = ("config.json", "model.safetensors", "tokenizer.json")
    one, other = ([(path / name).read_bytes() for name in names] for path in (start, tmp_path / "again"))
    assert one[1:] == other[1:] and json.loads(one[0]).items() <= json.loads(other[0]).items()
    filler = bert_tf.load(tmp_path / "again").features(["Hello caf\u00e9"])
    np.testing.assert_allclose(filler, bert.features(["Hello cafe\u0301"]), atol=1e-6)


@pytest.mark.slow
def test_masked_words_are_predicted_scored_and_shown(start, tmp_path):
    bert, filler, scorer = bert_tf.load(start), Filler(start, top_k=5), TextScorer(start)
    head, table = masked_lm_head(bert), tf.convert_to_tensor(bert.encoder.embeddings.word_embeddings)

    def shares(ids, place):
        """Returns the probabilities of all tokens at a masked place, float32 [V], without any of the readers."""
        ids = np.where(np.arange(len(ids)) == place, bert.tokenizer.mask_id, ids)[np.newaxis]
        states = bert.encoder({"input_ids": tf.constant(ids, tf.int32)})["sequence_output"]
        return tf.nn.softmax(head(states, table, tf.constant([[place]])))[0, 0].numpy()

    text = f"the old {filler.reader.mask} counted ships"
    [answer], [said] = filler([text]), inspect.logit_lens(bert, [text], top_k=5)
    place = said.ids.tolist().index(bert.tokenizer.mask_id)
    assert answer["token"] == said.top_tokens[-1, place].tolist()
    expected = np.sort(shares(said.ids, place)[: bert.tokenizer.vocab_size])[:-6:-1]
    np.testing.assert_allclose(answer["probability"], expected, atol=1e-6)
    np.testing.assert_allclose(said.probabilities[-1, place], expected, atol=1e-6)

    texts = ["the old keeper", "gulls and waves and gulls counted"]
    for score, each in zip(scorer(texts), texts, strict=True):
        rows = {name: values.numpy()[0] for name, values in bert.tokenizer([each], max_seq_length=LENGTH).items()}
        ids = rows["input_ids"][rows["input_mask"] > 0]
        logs = [np.log(shares(ids, place)[ids[place]]) for place in range(1, len(ids) - 1)]
        np.testing.assert_allclose(score.log_probabilities, logs, atol=1e-5)

    views = ["heads", "model", "neurons", "inputs", "logit_lens", "layers"]
    page = [f"--model={start}", f"--views={','.join(views)}", f"--output_file={tmp_path}/page.html", text, "gulls"]
    seen = run_here("visualize", page)
    assert not seen["status"] and (tmp_path / "page.html").stat().st_size, seen["log"]
    found = gather(bert, [text, "gulls"], PageOptions(views))
    [row] = inspect.neurons(bert, [(text, "gulls")], masks=True)
    assert found.facts["views"] == [{"name": name, "missing": None} for name in views]
    layers, heads = row.heads.shape
    scores = np.array([[row.scores(layer, head) for head in range(heads)] for layer in range(layers)])
    unseen = row.weights == 0  # outside of the window
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * ~unseen
    np.testing.assert_allclose(weights / weights.sum(-1, keepdims=True), row.weights, atol=1e-5)


_ADAPTED = """
import json, sys, numpy as np, peft, torch, transformers
start, adapter, spans, made = sys.argv[1:5]
texts = json.loads(sys.argv[5])
def of(kind, path, **options):
    return getattr(transformers, f"ModernBertFor{kind}").from_pretrained(path, **options).eval()
def scores(model):
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    with torch.no_grad():
        rows = [model(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0].tolist() for text in texts]
    return rows
def first(model):
    return model.head.dense.weight.detach().numpy().tolist()
base = of("SequenceClassification", start, num_labels=2)
head = first(base)
ours = peft.PeftModel.from_pretrained(base, adapter).eval()
assert set(peft.utils.load_peft_weights(adapter)) == set(peft.get_peft_model_state_dict(ours))
answering = peft.PeftModel.from_pretrained(of("QuestionAnswering", start), spans)
assert set(peft.utils.load_peft_weights(spans)) == set(peft.get_peft_model_state_dict(answering))
torch.manual_seed(0)
config = peft.LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=5, target_modules=["Wqkv", "mlp.Wi"])
own = peft.get_peft_model(of("SequenceClassification", start, num_labels=2), config)
with torch.no_grad():
    for name, weight in own.named_parameters():
        if "lora_" in name:
            weight.add_(0.1 * torch.randn(weight.shape))
own.eval().save_pretrained(made)
print(json.dumps([head, scores(ours), scores(own)]))
"""


def _probabilities(folder, texts, length=LENGTH):
    bert = bert_tf.load(folder)
    rows = [bert.tokenizer([text], max_seq_length=length) for text in texts]
    logits = [bert.head(bert.encoder(row)["pooled_output"])[0] for row in rows]
    return tf.nn.softmax(tf.stack(logits)).numpy()


@pytest.mark.slow
def test_adapters_and_first_layers_of_heads_are_pefts_and_torch_s(tmp_path_factory, tmp_path):
    start, texts = _model(tmp_path_factory, "modernbert"), _texts()
    tiny.write_tsv(tmp_path / "train.tsv", [(text, str(n % 2)) for n, text in enumerate(texts)])
    (tmp_path / "squad.json").write_text(json.dumps(_squad()), encoding="utf-8")
    common = [f"--init_checkpoint={start}", "--do_train", "--seed=1", f"--max_seq_length={LENGTH}", "--lora_rank=2",
              "--lora_alpha=3", "--train_batch_size=8", "--num_train_epochs=1", "--learning_rate=1e-2"]  # fmt: skip
    table = [f"--train_file={tmp_path}/train.tsv", f"--predict_file={tmp_path}/train.tsv", "--do_predict"]
    (classified,) = run_programs("run_classifier", [
        [*common, *table, "--lora_targets=query,value,output", f"--output_dir={tmp_path}/text", "--do_export",
         "--export_for=cpu"],
    ])  # fmt: skip
    spans = ["--max_query_length=8", "--doc_stride=16", f"--train_file={tmp_path}/squad.json", "--lora_targets=key"]
    (answered,) = run_programs("run_squad", [[*common, *spans, f"--output_dir={tmp_path}/spans"]])
    assert not classified["status"], classified["log"]
    assert not answered["status"], answered["log"]
    lines = (tmp_path / "text" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    expected = np.array([[*json.loads(line)["probabilities"].values()] for line in lines])
    serve = tf.saved_model.load(str(tmp_path / "text" / "export" / "1")).signatures["serving_default"]
    np.testing.assert_allclose(serve(text=tf.constant(texts))["probabilities"], expected, atol=1e-5)

    folders = [f"{tmp_path}/{name}" for name in ("text/adapter", "spans/adapter", "made")]
    said = other_envs.run(other_envs.torch_python(), _ADAPTED, str(start), *folders, json.dumps(texts))
    head, ours, made = json.loads(said.splitlines()[-1])
    np.testing.assert_array_equal(np.float32(head).T, bert_tf.load(start).others[f"{MASKED_LM_LAYERS}/dense/kernel"])
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    for name, theirs in (("text/adapter", ours), ("made", made)):
        model = adapters.merge_adapters(read_model_directory(str(start)), f"{tmp_path}/{name}")
        write_edited_model(model, f"{tmp_path}/merged-{name.replace('/', '-')}")
        found = _probabilities(f"{tmp_path}/merged-{name.replace('/', '-')}", texts)
        np.testing.assert_allclose(found, theirs, atol=1e-5)


# Form of an export for CPUs -> its flags, and how far its probabilities are off, as a share of their range: at least,
# or it would be float32, and at most. Measured: 0.001 to 0.004 in bfloat16, 0.0001 to 0.003 in int8.
FORMS = {
    "float32": ([], 0, 1e-5),
    "bfloat16": (["--export_dtype=bfloat16"], 1e-5, 0.02),
}
if COMPUTES_INT8:
    FORMS["int8"] = (["--export_dtype=int8"], 1e-5, 0.01)
    FORMS["calibrated"] = (["--export_dtype=int8", "--calibration_file=HOME/texts.txt"], 1e-5, 0.01)


def _check_attributions(folder, texts):
    """Those of the signature are those of `inspect`, and add up to what the score has more than the baseline's."""
    ask = tf.saved_model.load(f"{folder}/export/1").signatures["attributions"]
    found = ask(text=tf.constant(texts), target=tf.constant([""] * len(texts)))
    for n, why in enumerate(inspect.attributions(bert_tf.load(folder), texts)):
        np.testing.assert_allclose(found["attribution"][n, : len(why)], why.values, atol=1e-5)
        assert why.values.sum() == pytest.approx(why.score - why.baseline_score, rel=0.01)
        assert np.abs(why.values).max() > 1e-3


@pytest.mark.slow
def test_every_task_is_trained_exported_and_loaded_by_torch(start, tmp_path):
    texts = _texts()
    tiny.write_tsv(tmp_path / "train.tsv", [(text, str(int("gulls" in text))) for text in texts])
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    tagged = ("\n".join(f"{word} {'B-X' if word == 'gulls' else 'O'}" for word in text.split()) for text in texts)
    (tmp_path / "tags.txt").write_text("\n\n".join(tagged) + "\n", encoding="utf-8")
    (tmp_path / "squad.json").write_text(json.dumps(_squad()), encoding="utf-8")
    common = [f"--init_checkpoint={start}", "--do_train", "--do_export", "--save_format=huggingface", "--seed=1",
              f"--max_seq_length={LENGTH}", "--train_batch_size=8"]  # fmt: skip
    table = [f"--train_file={tmp_path}/train.tsv", f"--predict_file={tmp_path}/train.tsv", "--do_predict",
             "--learning_rate=3e-3", "--num_train_epochs=6"]  # fmt: skip
    targets = {"text": ["--export_explanations=attributions"]}
    if COMPUTES_INT8:
        targets["ranges"] = ["--export_for=cpu", "--export_dtype=int8"]
    classified = run_programs("run_classifier", [
        [*common, *table, f"--output_dir={tmp_path}/{name}", *given] for name, given in targets.items()
    ])  # fmt: skip
    exported = run_programs("export", [
        [f"--model={tmp_path}/text", "--export_for=cpu", f"--export_dir={tmp_path}/{form}/export", *at(tmp_path, given)]
        for form, (given, *_) in FORMS.items()
    ])  # fmt: skip
    (tags,) = run_programs(
        "run_tagger",
        [[*common, f"--train_file={tmp_path}/tags.txt", f"--output_dir={tmp_path}/tags", "--num_train_epochs=1"]],
    )
    spans = ["--max_query_length=8", "--doc_stride=16", f"--train_file={tmp_path}/squad.json", "--num_train_epochs=1"]
    (answered,) = run_programs("run_squad", [[*common, *spans, f"--output_dir={tmp_path}/spans"]])
    for said in (*classified, *exported, tags, answered):
        assert not said["status"], said["log"]
    lines = (tmp_path / "text" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    expected = np.array([[*json.loads(line)["probabilities"].values()] for line in lines])
    assert np.ptp(expected[:, 1]) > 0.4  # so that errors show
    like = {"text": "float32", "ranges": "calibrated"}
    for name, (_, least, most) in (FORMS | {each: FORMS[like[each]] for each in targets}).items():
        serve = tf.saved_model.load(str(tmp_path / name / "export" / "1")).signatures["serving_default"]
        off = np.abs(serve(text=tf.constant(texts))["probabilities"] - expected).max() / np.ptp(expected[:, 1])
        assert least <= off < most, name
    _check_attributions(tmp_path / "text", texts[:4])
    prefix = family(EncoderConfig.load(start).model_type).classes
    classes = {"SequenceClassification": "text", "TokenClassification": "tags", "QuestionAnswering": "spans"}
    pairs = [(kind, f"{tmp_path}/{name}/huggingface") for kind, name in classes.items()]
    for python in (other_envs.torch_python(), other_envs.transformers_5_python()):
        said = other_envs.run(python, _LOADED, json.dumps(pairs), json.dumps(texts), prefix)
        theirs = [[row["0"], row["1"]] for row in json.loads(said.splitlines()[-1])]
        np.testing.assert_allclose(theirs, expected, atol=1e-5)


@pytest.mark.slow
def test_lists_are_learned_and_served(start, tmp_path):
    ranked, chosen = rankings.queries(16), choices.questions(16, counts=(2, 5))
    rankings.write_jsonl(tmp_path / "run_reranker.train.jsonl", ranked)
    rows = [(query, [*positives, *negatives]) for query, positives, negatives in ranked]
    rankings.write_jsonl(tmp_path / "run_reranker.jsonl", rows, ("query", "documents"))
    for ending in (".train.jsonl", ".jsonl"):
        choices.write_jsonl(tmp_path / f"run_multiple_choice{ending}", chosen)
    for program, values in {"run_reranker": "scores", "run_multiple_choice": "probabilities"}.items():
        (said,) = run_programs(program, [
            [f"--init_checkpoint={start}", "--do_train", f"--train_file={tmp_path}/{program}.train.jsonl",
             "--do_predict", f"--predict_file={tmp_path}/{program}.jsonl", "--do_export", "--seed=1",
             f"--max_seq_length={LENGTH}", "--train_batch_size=8", "--num_train_epochs=2", "--learning_rate=3e-3",
             f"--output_dir={tmp_path}/{program}"],
        ])  # fmt: skip
        assert not said["status"], said["log"]
        lines = json_lines(tmp_path / program / "predictions.jsonl")
        predictor = bert_tf.Predictor(tmp_path / program / "export")
        answers = predictor([tuple(line[name] for name in predictor.inputs) for line in lines])
        for answer, line in zip(answers, lines, strict=True):
            np.testing.assert_allclose(answer[values], line[values], atol=1e-5)
        assert np.ptp(np.concatenate([line[values] for line in lines])) > 0.005


@pytest.mark.slow
def test_pairs_are_learned_and_their_embeddings_served(start, tmp_path):
    tiny.write_jsonl(tmp_path / "pairs.jsonl", embeddings.pairs(16), ["text_a", "text_b"])
    tiny.write_jsonl(tmp_path / "texts.jsonl", [(text,) for text in _texts()], ["text"])
    trained, asked = run_programs("run_embedder", [
        [f"--init_checkpoint={start}", "--do_train", f"--train_file={tmp_path}/pairs.jsonl", "--do_export", "--seed=1",
         f"--max_seq_length={LENGTH}", "--train_batch_size=8", "--num_train_epochs=2", "--learning_rate=3e-3",
         f"--output_dir={tmp_path}/out"],
        [f"--init_checkpoint={tmp_path}/out", "--do_predict", f"--predict_file={tmp_path}/texts.jsonl",
         "--text_column=text", f"--output_dir={tmp_path}/asked"],
    ])  # fmt: skip
    assert not trained["status"] and not asked["status"], (trained["log"], asked["log"])
    expected = np.array([line["embedding"] for line in json_lines(tmp_path / "asked" / "predictions.jsonl")])
    found = np.stack([each["embedding"] for each in bert_tf.Predictor(tmp_path / "out" / "export")(_texts())])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(expected, axis=0).max() > 1e-3  # the texts differ


@pytest.mark.slow
def test_probes_know_the_words(start, tmp_path):
    texts = _texts()
    tagged = ("\n".join(f"{w} {'S' if w.endswith('s') else 'A' if len(w) == 3 else 'O'}" for w in text.split())
              for text in texts)  # fmt: skip
    (tmp_path / "tags.txt").write_text("\n\n".join(tagged) + "\n", encoding="utf-8")
    words = [f"--model={start}", f"--train_file={tmp_path}/tags.txt", f"--output_dir={tmp_path}"]
    for more in (["--num_train_epochs=60"], ["--heads"]):
        said = run_here("probe", [*words, *more])
        assert not said["status"], said["log"]
    found = json.loads((tmp_path / "probe.json").read_text(encoding="utf-8"))
    assert [each["layer"] for each in found["layers"]] == [0, 1, 2, 3] and found["labels"] == ["A", "O", "S"]
    least = 0.8 if EncoderConfig.load(start).has_position_table else 0.95  # random positions hide some of the words
    assert found["layers"][0]["accuracy"] > least > found["baselines"]["majority"] + least - 0.65
    heads = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))["measures"]
    rows = inspect.attention(bert_tf.load(start), texts)  # tokens of white space belong to no word
    first = np.concatenate([row.weights[:, :, row.word_of_token >= 0, 0] for row in rows], 2).mean(2)
    np.testing.assert_allclose(heads["first"], first, atol=1e-5)


@pytest.mark.slow
def test_an_export_reads_8192_tokens(tmp_path_factory, tmp_path):
    length, texts = 8192, _texts()
    start = _model(tmp_path_factory, "modernbert", max_position_embeddings=length)
    tiny.write_tsv(tmp_path / "train.tsv", [(text, str(int("gulls" in text))) for text in texts])
    words = [f"--init_checkpoint={start}", "--do_train", f"--train_file={tmp_path}/train.tsv", "--do_export",
             f"--max_seq_length={length}", "--learning_rate=3e-3", "--num_train_epochs=20", "--train_batch_size=8",
             "--seed=1", f"--output_dir={tmp_path}/text"]  # fmt: skip
    (said,) = run_programs("run_classifier", [words])
    assert not said["status"], said["log"]
    bert = bert_tf.load(tmp_path / "text")
    serve = tf.saved_model.load(str(tmp_path / "text" / "export" / "1")).signatures["serving_default"]
    found = []
    for word in ("waves", "gulls"):  # in the second half
        text = " ".join(["the old keeper"] * 700 + [word] * length)
        assert bert.tokenizer([text], max_seq_length=length)["input_ids"].shape == (1, length)
        found.append(serve(text=tf.constant([text]))["probabilities"][0].numpy())
        np.testing.assert_allclose(found[-1], _probabilities(tmp_path / "text", [text], length)[0], atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.01


@pytest.mark.slow
@needs_int8
def test_a_modernbert_with_gemma_s_tokenizer_is_trained_exported_and_loaded_by_torch(tmp_path_factory, tmp_path):
    start = _model(tmp_path_factory, "modernbert", "mmbert")
    texts = [*_texts(), "  two  spaces\n\nand \u4e2d\u6587 \U0001f600\tx "]
    rows = {"text": texts, "label": [str(n % 2) for n in range(len(texts))]}
    run = bert_tf.finetune(
        "classification", train=rows, init_checkpoint=str(start), output_dir=str(tmp_path / "run"),
        max_seq_length=LENGTH, num_train_epochs=1,
    )  # fmt: skip
    run.export(str(tmp_path / "export"), export_for="cpu", export_dtype="int8")
    served = bert_tf.Predictor(str(tmp_path / "export"), engine="saved_model")(texts)
    light = LitePredictor(str(tmp_path / "export"))(texts)
    for text, ours, other in zip(texts, served, light, strict=True):
        assert ours["probabilities"] == pytest.approx(other["probabilities"], abs=0.02), text
    code = "import json, sys, transformers; t = transformers.AutoTokenizer.from_pretrained(sys.argv[1]); "
    code += "print(json.dumps(t(json.loads(sys.argv[2]))['input_ids']))"
    theirs = json.loads(other_envs.run(other_envs.torch_python(), code, start, json.dumps(texts)))
    tokenizer = bert_tf.load(start).tokenizer
    ours = tokenizer.pack(tokenizer.tokenize(texts), max_seq_length=100)["input_ids"].to_list()
    assert ours == theirs
