"""sentence-transformers' losses of given vectors: PYTHON_WITH_TORCH tests/goldens/torch_embedding_losses.py FILE

FILE is JSON: `vectors` [B, N, D], `labels` [B], `temperature` and `dims`. Prints, as JSON, {loss: [value, its gradient
by the vectors]}. The model of the losses gives the vectors as they are.
"""

import json
import pathlib
import sys

import torch
from sentence_transformers import util
from sentence_transformers.sentence_transformer import losses


class Given(torch.nn.Module):
    """A model whose embeddings are given."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    def get_embedding_dimension(self):
        return self.width

    def forward(self, features):
        return dict(features)


def main(path):
    given = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    temperature, labels = given["temperature"], torch.tensor(given["labels"])
    model = Given(len(given["vectors"][0][0]))
    dims = given["dims"]

    def cosine(one, other):
        return util.pairwise_cos_sim(one, other) / temperature

    plain = {
        "in_batch_negatives": losses.MultipleNegativesRankingLoss(model, scale=1 / temperature),
        "margin_mse": losses.MarginMSELoss(model, similarity_fct=cosine),
    }
    short = {f"{name} of {dims}": losses.MatryoshkaLoss(model, loss, dims, [1 / len(dims)] * len(dims))
             for name, loss in plain.items()}  # fmt: skip
    found = {}
    for name, loss in {**plain, **short}.items():
        vectors = torch.tensor(given["vectors"], requires_grad=True)
        value = loss([{"sentence_embedding": vectors[:, n]} for n in range(vectors.shape[1])], labels)
        value.backward()
        found[name] = [value.item(), vectors.grad.tolist()]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
