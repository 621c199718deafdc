"""The API of Hugging Face's text-embeddings-inference (TEI): /embed, /predict, /rerank, /tokenize, /info and /health.

TEI serves one model. Here, each path is answered by the only served model of its task.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np

import bert_tf
from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.server import json_responses
from bert_tf.serving.server.json_values import kind
from bert_tf.serving.server.predict import hold_response, run_predict
from bert_tf.serving.server.protocols.adapter import AdapterRequest, Protocol, choice, member, read_inputs, texts
from bert_tf.serving.server.protocols.embeddings import check_dimensions, embed
from bert_tf.serving.server.protocols.rerank import RERANK, order_documents, rerank
from bert_tf.serving.server.protocols.served_tasks import CLASSIFICATION, EMBEDDING, RERANKING, leased
from bert_tf.serving.server.protocols.token_counting import check_texts, count_read_tokens, require_tokenizer

_CUT = ("truncate", "truncation_direction")
_MEMBERS_OF_A_TOKEN = 5  # in the response of /tokenize
_TOO_LARGE = 413
# HTTP status -> (TEI's HTTP status, its error_type)
_ERRORS = {400: (422, "Validation"), 404: (424, "Backend"), 429: (429, "Overloaded"), 503: (429, "Overloaded")}


def _embed(request: AdapterRequest) -> str:
    members = request.members(("inputs",), ("normalize", "dimensions", *_CUT))
    values = texts(members["inputs"], "inputs")
    with leased(request, EMBEDDING) as (version, signature):
        dimensions = check_dimensions(version, signature, members)
        inputs = _inputs(request, version, signature, {"text": values}, members)
        vectors = embed(request, version, signature, inputs, dimensions, member(members, "normalize", bool, True))
    return json_responses.document(list(vectors))


def _predict(request: AdapterRequest) -> str:
    """Returns [{"score", "label"}], the best first, for one text or pair, or a list of those for a list of examples."""
    members = request.members(("inputs",), ("raw_scores", *_CUT))
    _refuse_raw_scores(members)
    examples, is_one = _examples(members["inputs"])
    with leased(request, CLASSIFICATION) as (version, signature):
        names = list(signature.inputs)
        if len(names) != len(examples[0]):
            wanted = "texts" if len(names) == 1 else "pairs of texts"
            raise invalid(f"'inputs' must be {wanted} for the model {request.spec.name}")
        columns = {name: list(column) for name, column in zip(names, zip(*examples, strict=True), strict=True)}
        inputs = _inputs(request, version, signature, columns, members)
        outputs = run_predict(version, signature, inputs, ["labels", "probabilities"], request.call)
    found = [_by_score(*each) for each in zip(outputs["labels"], outputs["probabilities"], strict=True)]
    return json_responses.document(found[0] if is_one else found)


def _rerank(request: AdapterRequest) -> str:
    members = request.members(("query", "texts"), ("raw_scores", "return_text", *_CUT))
    _refuse_raw_scores(members)
    is_returned = member(members, "return_text", bool, False)
    documents = texts(member(members, "texts", list), "texts")
    columns = {"query": [member(members, "query", str)], "documents": [documents]}
    with leased(request, RERANKING) as (version, signature):
        inputs = _inputs(request, version, signature, columns, members)
        ranking = order_documents(request, version, signature, inputs, "texts")
    more = [{"text": documents[index]} if is_returned else {} for index, _ in ranking]
    return json_responses.document(
        [{"index": index, "score": score} | each for (index, score), each in zip(ranking, more, strict=True)]
    )


def _tokenize(request: AdapterRequest) -> str:
    """Returns the tokens of each text; offsets are in code points, and special tokens have none."""
    members = request.members(("inputs",), ("add_special_tokens",))
    values = texts(members["inputs"], "inputs")
    with leased(request, EMBEDDING, RERANKING, CLASSIFICATION) as (version, _):
        check_texts(values, request.call)
        tokenizer = require_tokenizer(version)
        template = tokenizer.tables.template if member(members, "add_special_tokens", bool, True) else None
        found, count = [], 0
        for text in values:
            request.call.check()
            found.append(_tokens(tokenizer, text, template))
            count += len(found[-1])
            request.call.limits.check_tokens(count)
        hold_response(version, _MEMBERS_OF_A_TOKEN * count, request.call)
        return json_responses.document(found)


def _tokens(tokenizer, text, template):
    """Returns the tokens of a text, between the special tokens of the template unless it is None."""
    of_special = {"special": True, "start": None, "stop": None}
    before, after = (
        [{"id": tokenizer.tables.id_of(name), "text": name, **of_special} for name in names]
        for names in ((template.before, template.after) if template else ((), ()))
    )
    found = [
        {"id": token, "text": text[start:stop], "special": False, "start": start, "stop": stop}
        for token, start, stop in zip(*tokenizer.tokenize_with_offsets(text), strict=True)
    ]
    return [*before, *found, *after]


def _info(request: AdapterRequest) -> str:
    with leased(request, EMBEDDING, RERANKING, CLASSIFICATION) as (version, signature):
        limits, sequences, task = request.call.limits, version.model.sequences, version.model.task
        labels = {str(i): label for i, label in enumerate(task.get("labels") or [])}
        model_type: dict[str, Any] = {"classifier": {"id2label": labels}}
        if EMBEDDING.fits(signature):
            model_type = {"embedding": {"pooling": ",".join(task.get("poolings") or [])}}
        elif RERANKING.fits(signature):
            model_type = {"reranker": {}}
        return json_responses.document(
            {
                "model_id": version.name,
                "model_sha": str(version.number),
                "model_type": model_type,
                "max_input_length": (sequences.text_tokens or sequences.positions) - sequences.added,
                "max_batch_tokens": limits.max_request_tokens,
                "max_client_batch_size": limits.max_batch_size,
                "auto_truncate": True,
                "version": f"bert_tf {bert_tf.__version__}",
            }
        )


def _inputs(request, version, signature, columns: Mapping[str, Any], members) -> dict[str, np.ndarray]:
    """Returns the arrays of texts.

    Raises:
        ServingError: a text would be truncated, and the request does not allow it.
    """
    choice(members, "truncation_direction", ("Right", "right"), "Right")
    inputs = read_inputs(signature, columns, request.call)
    if member(members, "truncate", bool, True) or not version.model.sequences.text_tokens:
        return inputs
    require_tokenizer(version)
    counts = count_read_tokens(version, columns, request.call)
    if counts.truncated:
        raise _TooLongError(
            f"{counts.truncated} of {counts.sequences} inputs have more tokens than the model {version.name} reads, "
            f"{version.model.sequences.text_tokens}; shorten them or leave out 'truncate'"
        )
    return inputs


class _TooLongError(ServingError):
    def __init__(self, message):
        super().__init__(grpc.StatusCode.INVALID_ARGUMENT, message)
        self.http_status = _TOO_LARGE


def _examples(value):
    """Returns ([tuple of one or two texts], whether there is only one, without a list around it)."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        for i, each in enumerate(value):
            if not isinstance(each, list):
                raise invalid(f"'inputs' must be lists, as the first is; got JSON {kind(each)} at index {i}")
        found = [tuple(texts(each, "inputs")) for each in value]
    else:
        found = [tuple(texts(value, "inputs"))]
        value = None
    if len({*map(len, found)}) > 1 or len(found[0]) > 2:
        raise invalid("'inputs' must be a text, a pair of texts, or a list of lists, all with one text or all with two")
    return found, value is None


def _by_score(labels, probabilities):
    order = np.argsort(-probabilities, kind="stable")
    return [{"score": probabilities[i], "label": labels[i]} for i in order]


def _refuse_raw_scores(members):
    if member(members, "raw_scores", bool, False):
        raise invalid("'raw_scores' must be false: a served model returns scores, no logits")


def _write_error(status, message):
    status, error_type = _ERRORS.get(status, (424, "Backend") if status >= 500 else (status, "Validation"))
    return status, json_responses.document({"error": message, "error_type": error_type})


_ROUTES = {
    ("POST", "/embed"): _embed,
    ("POST", "/predict"): _predict,
    ("POST", "/rerank"): _rerank,
    ("POST", "/tokenize"): _tokenize,
    ("GET", "/info"): _info,
}
TEI = Protocol("tei", _ROUTES, _write_error, ready_paths=("/health",))


def _rerank_by_body(request):
    """Answers /rerank in TEI's form if the body has `texts`, and in Cohere's and Jina's otherwise."""
    if isinstance(request.document, dict) and "texts" in request.document:
        request.protocol = TEI
        return _rerank(request)
    return rerank(request)


# In place of `RERANK` if both are enabled.
RERANK_BY_BODY = dataclasses.replace(RERANK, routes={("POST", "/rerank"): _rerank_by_body, **RERANK.routes})
