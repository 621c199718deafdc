"""OpenAI's embeddings: POST /v1/embeddings, as its API reference describes them."""

import base64

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.server import json_responses
from bert_tf.serving.server.protocols.adapter import AdapterRequest, Protocol, choice, member, read_inputs, texts
from bert_tf.serving.server.protocols.embeddings import check_dimensions, embed
from bert_tf.serving.server.protocols.served_tasks import EMBEDDING, leased
from bert_tf.serving.server.protocols.token_counting import count_read_tokens

_FORMATS = ("float", "base64")


def _embeddings(request: AdapterRequest) -> str:
    members = request.members(("model", "input"), ("encoding_format", "dimensions", "user"))
    member(members, "user", str)  # for OpenAI's own monitoring: it changes no embedding
    encoding = choice(members, "encoding_format", _FORMATS, "float")
    values = _texts(members["input"])
    with leased(request, EMBEDDING, name=member(members, "model", str)) as (version, signature):
        dimensions = check_dimensions(version, signature, members)
        columns = {"text": values}
        inputs = read_inputs(signature, columns, request.call)
        vectors = embed(request, version, signature, inputs, dimensions)
        counts = count_read_tokens(version, columns, request.call)
    vectors = [_base64(each) for each in vectors] if encoding == "base64" else list(vectors)
    data = [{"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(vectors)]
    answer = {"object": "list", "data": data, "model": request.spec.name}
    if counts is not None:
        answer["usage"] = {"prompt_tokens": counts.tokens, "total_tokens": counts.tokens}
    return json_responses.document(answer)


def _texts(value):
    """Returns the texts of `input`; raises ServingError for token ids, which are those of OpenAI's vocabularies."""
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, (int, list)):
        raise invalid(
            "'input' must be a string or a list of strings; got token ids, which have no meaning here because they are "
            "those of OpenAI's vocabularies. Send texts (LangChain: check_embedding_ctx_length=False)"
        )
    return texts(value, "input")


def _base64(vector):
    """Returns the numbers of a vector, float32 in little-endian order, as base64."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _write_error(status, message):
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    code = "model_not_found" if status == 404 else None
    return status, json_responses.document({"error": {"message": message, "type": kind, "param": None, "code": code}})


OPENAI = Protocol("openai", {("POST", "/v1/embeddings"): _embeddings}, _write_error)
