"""Published checkpoints by name: size, vocabulary, letter case, published metrics, and download locations.

This module downloads nothing (`hub_models` does). If a name is passed as a path, the message explains what to pass.
Vocabulary and sizes are those of the published configurations; `source` is the source of the metrics.
"""

import dataclasses
import re

from bert_tf.models import family_registry

_GOOGLE = "https://storage.googleapis.com/bert_models"
_SCIBERT = "https://s3-us-west-2.amazonaws.com/ai2-s2-research/scibert/tensorflow_models"
_BERT_README, _MULTILINGUAL = "google-research/bert README.md", "google-research/bert multilingual.md"
_CARDS = "huggingface/transformers model_cards"
_XNLI = "XNLI, translated training set: en 81.9 zh 76.6 es 77.8 de 75.9 ar 70.7 ur 61.6"
MODEL_FILES = "its configuration, weights and tokenizer files"


@dataclasses.dataclass(frozen=True)
class Release:
    """A published checkpoint.

    Attributes:
        size: one of `family_registry.published_sizes()`.
        vocab_size: number of tokens of its vocabulary.
        do_lower_case: whether its texts are lowercased, as in the flag.
        repository: repository on huggingface.co.
        scores: published metrics, in percent, with their data sets; empty if there are none.
        source: source of the metrics.
        archive: URL of a TF1 checkpoint; empty if there is none.
    """

    size: str
    vocab_size: int
    do_lower_case: bool
    repository: str
    scores: str = ""
    source: str = ""
    archive: str = ""


def _google(size, vocab_size, lower, archive, repository, scores="", source=_BERT_README):
    archive, source = f"{_GOOGLE}/{archive}.zip", source if scores else ""
    return Release(size, vocab_size, lower, f"google-bert/{repository}", scores, source, archive)


def _electra(size, test, dev):
    archive = f"https://storage.googleapis.com/electra-data/electra_{size}.zip"
    repository, scores = f"google/electra-{size}-discriminator", f"GLUE test {test}; dev: {dev}"
    return Release(f"electra-{size}", 30522, True, repository, scores, "google-research/electra README.md", archive)


def _roberta(size, dev):
    name = f"roberta-{size}"
    return Release(name, 50265, False, f"FacebookAI/{name}", f"GLUE dev: {dev}", "fairseq examples/roberta/README.md")


def _albert(size, scores):
    name = f"albert-{size}-v2"
    return Release(name, 30000, True, f"albert/{name}", scores, "google-research/albert README.md")


RELEASES: dict[str, Release] = {
    "bert-base-uncased": _google(
        "bert-base", 30522, True, "2018_10_18/uncased_L-12_H-768_A-12", "bert-base-uncased",
        "SQuAD 1.1 dev: exact 81.2, F1 88.4; MRPC dev: 84 to 88",
    ),
    "bert-large-uncased": _google(
        "bert-large", 30522, True, "2018_10_18/uncased_L-24_H-1024_A-16", "bert-large-uncased",
        "SQuAD 1.1 dev: exact 84.3, F1 91.0; MultiNLI: 86.05",
    ),
    "bert-base-cased": _google("bert-base", 28996, False, "2018_10_18/cased_L-12_H-768_A-12", "bert-base-cased"),
    "bert-large-cased": _google(
        "bert-large", 28996, False, "2018_10_18/cased_L-24_H-1024_A-16", "bert-large-cased",
        "SQuAD 1.1 dev: exact 84.8, F1 91.5; MultiNLI: 86.09",
    ),
    "bert-large-uncased-whole-word-masking": _google(
        "bert-large", 30522, True, "2019_05_30/wwm_uncased_L-24_H-1024_A-16", "bert-large-uncased-whole-word-masking",
        "SQuAD 1.1 dev: exact 86.7, F1 92.8; MultiNLI: 87.07",
    ),
    "bert-large-cased-whole-word-masking": _google(
        "bert-large", 28996, False, "2019_05_30/wwm_cased_L-24_H-1024_A-16", "bert-large-cased-whole-word-masking",
        "SQuAD 1.1 dev: exact 86.7, F1 92.9; MultiNLI: 86.46",
    ),
    "bert-base-multilingual-cased": _google(
        "bert-base", 119547, False, "2018_11_23/multi_cased_L-12_H-768_A-12", "bert-base-multilingual-cased",
        _XNLI, _MULTILINGUAL,
    ),
    "bert-base-multilingual-uncased": _google(
        "bert-base", 105879, True, "2018_11_03/multilingual_L-12_H-768_A-12", "bert-base-multilingual-uncased",
        "XNLI, translated training set: en 81.4 zh 74.2 es 77.3 de 75.2 ar 70.5 ur 61.7", _MULTILINGUAL,
    ),
    "bert-base-chinese": _google(
        "bert-base", 21128, True, "2018_11_03/chinese_L-12_H-768_A-12", "bert-base-chinese",
        "XNLI, Chinese: 77.4", _MULTILINGUAL,
    ),
    "scibert_scivocab_uncased": Release(
        "bert-base", 31090, True, "allenai/scibert_scivocab_uncased",
        "F1: BC5CDR 90.01, ACL-ARC 70.98, ChemProt 83.64", "Beltagy et al. 2019, arXiv:1903.10676, table 1",
        f"{_SCIBERT}/scibert_scivocab_uncased.tar.gz",
    ),
    "biobert-base-cased-v1.1": Release(
        "bert-base", 28996, False, "dmis-lab/biobert-base-cased-v1.1",
        "NCBI-disease test, entities, one run: precision 86.67, recall 88.75, F1 87.70", "dmis-lab/biobert README.md",
        "https://github.com/naver/biobert-pretrained/releases",
    ),
    "Bio_ClinicalBERT": Release(
        "bert-base", 28996, False, "emilyalsentzer/Bio_ClinicalBERT",
        archive="https://www.dropbox.com/s/8armk04fu16algz/pretrained_bert_tf.tar.gz?dl=1",
    ),
    "distilbert-base-uncased": Release("distilbert-base", 30522, True, "distilbert/distilbert-base-uncased"),
    "distilbert-base-cased": Release(
        "distilbert-base", 28996, False, "distilbert/distilbert-base-cased",
        "GLUE: MNLI 81.5 QQP 87.8 QNLI 88.2 SST-2 90.4 CoLA 47.2 STS-B 85.5 MRPC 85.6 RTE 60.6", _CARDS,
    ),
    "distilbert-base-multilingual-cased": Release(
        "distilbert-base", 119547, False, "distilbert/distilbert-base-multilingual-cased",
        "XNLI, English training set: en 78.2 es 69.1 zh 64.0 de 66.3 ar 59.1 ur 54.7", _CARDS,
    ),
    "electra-small-discriminator": _electra(
        "small", 77.4, "CoLA 57.0 SST-2 91.2 MRPC 88.0 STS-B 87.5 QQP 89.0 MNLI 81.3 QNLI 88.4 RTE 66.7"
    ),
    "electra-base-discriminator": _electra(
        "base", 82.7, "CoLA 67.7 SST-2 95.1 MRPC 89.5 STS-B 91.2 QQP 91.5 MNLI 88.8 QNLI 93.2 RTE 82.7"
    ),
    "electra-large-discriminator": _electra(
        "large", 85.2, "CoLA 69.1 SST-2 96.9 MRPC 90.8 STS-B 92.6 QQP 92.4 MNLI 90.9 QNLI 95.0 RTE 88.0"
    ),
    "roberta-base": _roberta(
        "base", "MNLI 87.6 QNLI 92.8 QQP 91.9 RTE 78.7 SST-2 94.8 MRPC 90.2 CoLA 63.6 STS-B 91.2"
    ),
    "roberta-large": _roberta(
        "large", "MNLI 90.2 QNLI 94.7 QQP 92.2 RTE 86.6 SST-2 96.4 MRPC 90.9 CoLA 68.0 STS-B 92.4"
    ),
    "xlm-roberta-base": Release("xlm-roberta-base", 250002, False, "FacebookAI/xlm-roberta-base"),
    "xlm-roberta-large": Release("xlm-roberta-large", 250002, False, "FacebookAI/xlm-roberta-large"),
    "xlm-v-base": Release("xlm-v-base", 901629, False, "facebook/xlm-v-base"),
    "camembert-base": Release("camembert-base", 32005, False, "almanach/camembert-base"),
    "camembert-large": Release("camembert-large", 32005, False, "almanach/camembert-large"),
    "mpnet-base": Release("mpnet-base", 30527, True, "microsoft/mpnet-base"),
    "all-mpnet-base-v2": Release("mpnet-base", 30527, True, "sentence-transformers/all-mpnet-base-v2"),
    "ModernBERT-base": Release("modernbert-base", 50368, False, "answerdotai/ModernBERT-base"),
    "ModernBERT-large": Release("modernbert-large", 50368, False, "answerdotai/ModernBERT-large"),
    "nomic-bert-2048": Release("nomic-bert-2048", 30522, True, "nomic-ai/nomic-bert-2048"),
    "nomic-embed-text-v1": Release("nomic-embed-text", 30522, True, "nomic-ai/nomic-embed-text-v1"),
    "nomic-embed-text-v1.5": Release("nomic-embed-text", 30522, True, "nomic-ai/nomic-embed-text-v1.5"),
    "gte-base-en-v1.5": Release("gte-base-en-v1.5", 30522, True, "Alibaba-NLP/gte-base-en-v1.5"),
    "gte-multilingual-base": Release("gte-multilingual-base", 250002, False, "Alibaba-NLP/gte-multilingual-base"),
    "deberta-v3-xsmall": Release("deberta-v3-xsmall", 128100, False, "microsoft/deberta-v3-xsmall"),
    "deberta-v3-small": Release("deberta-v3-small", 128100, False, "microsoft/deberta-v3-small"),
    "deberta-v3-base": Release("deberta-v3-base", 128100, False, "microsoft/deberta-v3-base"),
    "deberta-v3-large": Release("deberta-v3-large", 128100, False, "microsoft/deberta-v3-large"),
    "mdeberta-v3-base": Release("mdeberta-v3-base", 251000, False, "microsoft/mdeberta-v3-base"),
    "deberta-v2-xlarge": Release("deberta-v2-xlarge", 128100, False, "microsoft/deberta-v2-xlarge"),
    "deberta-v2-xxlarge": Release("deberta-v2-xxlarge", 128100, False, "microsoft/deberta-v2-xxlarge"),
    "albert-base-v2": _albert("base", "SQuAD 1.1 F1 90.2 exact 83.2; MNLI 84.6 SST-2 92.9 RACE 66.8"),
    "albert-large-v2": _albert("large", "SQuAD 1.1 F1 91.8 exact 85.2; MNLI 86.5 SST-2 94.9 RACE 75.2"),
    "albert-xlarge-v2": _albert("xlarge", "SQuAD 1.1 F1 92.9 exact 86.4; MNLI 87.9 SST-2 95.4 RACE 80.7"),
    "albert-xxlarge-v2": _albert("xxlarge", "SQuAD 1.1 F1 94.6 exact 89.1; MNLI 90.6 SST-2 96.8 RACE 86.8"),
    "all-MiniLM-L6-v2": Release("minilm-L6-H384", 30522, True, "sentence-transformers/all-MiniLM-L6-v2"),
    "MiniLM-L12-H384-uncased": Release("minilm-L12-H384", 30522, True, "microsoft/MiniLM-L12-H384-uncased"),
    "TinyBERT_General_4L_312D": Release("tinybert-4L-312", 30522, True, "huawei-noah/TinyBERT_General_4L_312D"),
    "TinyBERT_General_6L_768D": Release("tinybert-6L-768", 30522, True, "huawei-noah/TinyBERT_General_6L_768D"),
    "ernie-2.0-base-en": Release("ernie-2.0-base-en", 30522, True, "nghuyong/ernie-2.0-base-en"),
    "ernie-2.0-large-en": Release("ernie-2.0-large-en", 30522, True, "nghuyong/ernie-2.0-large-en"),
    "ernie-3.0-base-zh": Release("ernie-3.0-base-zh", 40000, True, "nghuyong/ernie-3.0-base-zh"),
    "ernie-3.0-nano-zh": Release("ernie-3.0-nano-zh", 40000, True, "nghuyong/ernie-3.0-nano-zh"),
}  # fmt: skip


def find_release(name: str) -> Release | None:
    """Returns the release for a name: ours, that on huggingface.co, or that of Google's directory."""
    wanted = name.strip("/").lower()
    for known, release in RELEASES.items():
        folder = re.sub(r"\.(zip|tar\.gz)$", "", release.archive.rsplit("/", 1)[-1])
        if wanted in (known.lower(), release.repository.lower(), folder.lower()):
            return release
    return None


def advice(path: str) -> str:
    """Returns advice if a checkpoint name was passed as a path; empty for any other path.

    The caller has found nothing at `path`; the advice begins with a space.
    """
    release = find_release(path)
    if release is None:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", path):
            return ""
        name = f"{path}@main" if "/" in path else f"its full name, organization/{path}"
        return f" If {path!r} is a model on huggingface.co, pass {name} to download it."
    row = family_registry.family(family_registry.size(release.size)["model_type"])
    is_said = release.do_lower_case or row.tokenizer != family_registry.family(family_registry.DEFAULT).tokenizer
    case = "" if is_said else " with `do_lower_case=false`"
    return (
        f" {path!r} is the name of a published checkpoint: pass {release.repository}@main{case} to download it, or the "
        f"path of a directory with {MODEL_FILES}."
    )
