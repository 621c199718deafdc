"""Programs as users write them: `make types` checks them with mypy --strict against bert_tf; they are not run.

Each function is a use of names from docs/reference/python_api.md. `assert_type` says what a checker must infer.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, assert_type

import numpy as np

import bert_tf
from bert_tf.checkpoints.feature_extractor import TokenFeatures
from bert_tf.checkpoints.loading import Bert
from bert_tf.data.columns import number
from bert_tf.data.features import keras_inputs
from bert_tf.data.tables import read_table
from bert_tf.evaluation.permutation import permutation_test
from bert_tf.evaluation.significance import paired_bootstrap
from bert_tf.evaluation.squad import score_squad
from bert_tf.evaluation.squad_files import read_null_odds, read_predictions, read_references
from bert_tf.export.hub.export import export_hub
from bert_tf.inference.reranker import Reranker
from bert_tf.inference.score_text import TextScorer
from bert_tf.inference.search import Hit, SearchIndex
from bert_tf.inference.search_reader import SearchReader
from bert_tf.interpret.attention import Attention
from bert_tf.models.config import config_for
from bert_tf.runs.finished_run import Run
from bert_tf.serving import AsyncClient, Retry, Tls
from bert_tf.serving.client.results import Result
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.server import serve
from bert_tf.serving.verification import verify
from bert_tf.tasks.base import FineTuningTask, SplitPredictions, TaskData, TrainedTask
from bert_tf.tasks.options import RunOptions, option
from bert_tf.tasks.trainable_task import Tensors
from bert_tf.utils.files import write_text
from bert_tf.utils.resources import best_precision

# === Models ===


def load_and_save(path: str) -> bert_tf.EncoderConfig:
    bert = bert_tf.load(path)
    assert_type(bert, Bert)
    assert_type(bert.features(["A joy."]), np.ndarray)
    assert_type(bert.features(["A joy."], layers=[-1, -2], pooling="max"), np.ndarray)
    assert_type(bert.features([("Who sang?", "Joan.")], pooling=None), list[TokenFeatures])
    print(bert_tf.save(bert, "elsewhere", "huggingface"), bert.labels, bert.path)
    return bert.config


def train(rows: list[dict[str, str]]) -> dict[str, float]:
    run = bert_tf.finetune("classification", train=rows, eval="dev.csv", init_checkpoint="minilm", learning_rate=2e-5,
                           callbacks=[lambda step, logs: print(step, logs["loss"])])  # fmt: skip
    assert_type(run, Run)
    assert_type(run.metrics, dict[str, float])
    print(run.predict("A joy."), run.model, run.errors(), run.report, run.export("models/reviews"), run.history)
    print(bert_tf.pretrain("records", output_dir="domain", num_train_steps=10).num_steps)
    print(bert_tf.export_model("reviews", "models/reviews", export_for="cpu"))
    bert_tf.finetune("classification", rows, learning_rat=1e-5)  # type: ignore[call-arg]
    bert_tf.finetune("classification", rows, learning_rate="fast", num_train_epochs="3")  # type: ignore[arg-type]
    return bert_tf.evaluate(run, rows)


def build(text: Any) -> None:
    config = bert_tf.EncoderConfig(vocab_size=30522, hidden_size=128, num_hidden_layers=2, num_attention_heads=2)
    encoder = bert_tf.Encoder(config, name="bert")
    tokenizer = bert_tf.WordPieceTokenizer("vocab.txt", do_lower_case=True)
    outputs = encoder(tokenizer(["A joy."], max_seq_length=16))
    print(outputs["sequence_output"].shape, encoder.block_of(1), config_for("base").to_dict())
    print(bert_tf.TokenizerLayer(tokenizer, max_seq_length=64)(text))
    print(bert_tf.HubLayer("encoder", trainable=True)(text), export_hub("model", "hub"))


# === Predictions, search, scikit-learn ===


def predict(path: str) -> str:
    predictor = bert_tf.Predictor(path)
    assert_type(predictor("A warm film."), dict[str, Any])
    assert_type(predictor(["A joy.", "Dull."]), list[dict[str, Any]])
    for answer in predictor.predict_file("texts.tsv", text_column="text"):
        print(answer["label"] if answer else None)
    vectors: np.ndarray = bert_tf.SentenceEncoder(path, normalize=True, dim=128)(["A joy."])
    print(vectors.shape)
    print([score.total for score in TextScorer(path)(["The man went home."])])
    label: str = predictor("A warm film.")["label"]
    return label


def search(directory: str, queries: Sequence[str]) -> list[list[Hit]]:
    index = SearchIndex.create(directory, "model", vector_dtype="int8", prompt="passage: ")
    index.add(["17"], ["Floods close the road."], [{"source": "radio"}])
    hits = Reranker("reranker")(queries, index.search(queries, top_k=100))
    print([answer.answer for found in SearchReader("reader")(queries, hits) for answer in found], len(index))
    index.delete(["17"])
    return hits


def fit(texts: list[str], labels: list[str]) -> float:
    classifier = bert_tf.sklearn.BertClassifier("model", num_train_epochs=2).fit(texts, labels)
    classifier.save("reviews")
    vectors = bert_tf.sklearn.BertEmbedder("model", pooling=("cls", "max"), layers=[-1]).fit(texts).transform(texts)
    print(classifier.predict_proba(texts).shape, vectors.shape)
    bert_tf.sklearn.BertTagger("model").fit([["Oslo"]], [["B-PLACE"]])
    return classifier.score(texts, labels)


# === Interpretability, evaluation ===


def look(bert: Bert) -> str:
    [seen] = bert_tf.inspect.attention(bert, ["The cat sat."])
    assert_type(seen, Attention)
    print(seen.weights.shape, bert_tf.inspect.layers(bert, ["The cat sat."])[0].tokens)
    return bert_tf.visualize(bert, "The cat sat.", views=["heads"]).page


def evaluate(labels: Sequence[int], a: Sequence[int], b: Sequence[int]) -> dict[str, float]:
    print(paired_bootstrap("accuracy", labels, a, b).p_value, permutation_test([0.5, 0.25], [0.125]))
    return score_squad(read_references("dev.json"), read_predictions("answers.json"), read_null_odds("odds.json"))


# === Serving ===


@dataclasses.dataclass(frozen=True)
class Rating:
    rating: int


def ask(text: str) -> None:
    with serve("models/reviews", "reviews", port=0) as server, bert_tf.Client(f"localhost:{server.port}") as client:
        assert_type(client, bert_tf.Client)
        assert_type(client.ask({"text": [text]}), list[dict[str, Any]])
        assert_type(client.ask({"text": [text]}, typed=True), list[Result])
        assert_type(client.ask({"text": [text]}, typed=Rating), list[Rating])
        assert_type(client.encode([text]), np.ndarray)
        print(client.predict({"input_ids": np.zeros([1, 8], np.int32)}), client.status()[0].state)
        print([answer for answer in client.stream([text], in_flight=8)])
    print(verify("models/reviews/1"), Limits().max_text_bytes, best_precision())


async def ask_later(text: str) -> list[dict[str, Any]]:
    async with AsyncClient("localhost:8500", retry=Retry(), tls=Tls()) as client:
        async for answer in client.stream([text]):
            print(answer)
        return await client.ask({"text": [text]})


# === A task of one's own ===


@dataclasses.dataclass(frozen=True)
class RatingOptions(RunOptions):
    highest: int = option(5, "Highest rating; the lowest is 0.", low=1)


class RatingTask(FineTuningTask):
    name = "rating"
    options = RatingOptions()
    features = ("input_ids", "input_mask", "segment_ids")

    def __init__(self, config: bert_tf.EncoderConfig, highest: int) -> None:
        self.config, self.highest = config, highest

    @classmethod
    def read_data(cls, options: RunOptions, kinds: Sequence[str], trained: TrainedTask | None) -> TaskData:
        table = read_table("train.tsv", label_column="rating", label=number(0, 5))
        return TaskData({"train": table})

    def build_model(self) -> Any:
        return bert_tf.Encoder(self.config)(keras_inputs(self.features))

    def example_losses(self, outputs: Any, batch: Tensors) -> tuple[Any, Any]:
        return outputs, self.example_weights(batch)

    def write_answers(self, directory: str, outcome: SplitPredictions, answers: Any) -> None:
        write_text(f"{directory}/ratings.txt", "".join(f"{rating}\n" for rating in answers))

    def to_dict(self) -> dict[str, Any]:
        return {"highest": self.highest}

    def identity(self) -> dict[str, Any]:
        return dict(self.normalized({"highest": self.highest}))

    def normalized(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return options
