"""Create pretraining records (TFRecord files) from text.

    bert-tf pretrain data \\
        --input_file=corpus/ --vocab_file=vocab.txt \\
        --output_file=records/train.tfrecord.gz --num_shards=8

With --init_checkpoint=MODEL instead of --vocab_file, the records are created
with the tokenizer of a model of any family, for continued pretraining.

Also writes a report next to the records, as text and as an HTML page with
plots. Run the same command again to resume an interrupted run.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.pretraining.settings import CorpusSettings, ExampleSettings
from bert_tf.utils.beam_settings import BeamSettings
from bert_tf.utils.counts import number_of
from bert_tf.utils.extras import require_packages
from bert_tf.utils.names import MASKINGS, SPECIAL_TOKENS
from bert_tf.utils.settings import UserSettings, flags_of, option, options_of

# Google's flags come first.


@dataclasses.dataclass(frozen=True)
class CreatePretrainingDataSettings(CorpusSettings, ExampleSettings, BeamSettings, UserSettings):
    """Text to read, and the records to create from it."""

    GROUP: ClassVar[str] = "Pretraining objective and masking"

    output_file: Sequence[str] | None = option(
        None,
        "Output file of the records, compressed if it ends in .gz. Records are distributed over several files that "
        "are separated by commas.",
        required=True, group="Output", essential=True,
    )
    vocab_file: str | None = option(
        None,
        "WordPiece vocabulary: one token per line, or a tokenizer.json. Required without --init_checkpoint.",
        group="Model", essential=True,
    )
    init_checkpoint: str | None = option(
        None,
        "Model of any family, whose tokenizer is used to create the records. --sentence_objective then defaults to "
        "that of the family.",
        group="Model", essential=True, excludes=("vocab_file",), reads_model="tokenizer",
    )
    do_lower_case: bool | None = option(
        None,
        "Lowercase the text. Default: the setting in tokenizer_config.json next to --vocab_file, or in the files of "
        "--init_checkpoint; otherwise true.",
        group="Model",
    )
    do_whole_word_mask: bool = option(
        False,
        "Same as --masking=whole_word.",
        excludes=tuple(f"masking={unit}" for unit in MASKINGS if unit != "whole_word"),
    )
    num_shards: int | None = option(
        None,
        "Number of files to write instead of one: NAME-00000-of-00008 and so on.",
        low=1, group="Output", essential=True,
    )
    num_workers: int | None = option(
        None,
        "Number of processes, which does not change the output. Default: one per core.",
        low=1, group="Parallel processing", essential=True,
    )
    work_dir: str | None = option(
        None,
        "Directory for intermediate files, which take the size of the text plus twice that of the uncompressed "
        "records. An interrupted run leaves these files. Default: the output directory.",
        group="Parallel processing",
    )


SETTINGS = CreatePretrainingDataSettings
FLAGS = flags_of(SETTINGS)
_OF_MASKS = (
    "masking", "do_whole_word_mask", "masked_lm_prob", "phrase_file", "mask_token_prob", "random_token_prob",
    "max_predictions_per_seq",
)  # fmt: skip


def main(settings: CreatePretrainingDataSettings):
    """Writes the records and the report."""
    from bert_tf.pretraining.corpus.local_run import create_pretraining_data
    from bert_tf.pretraining.corpus.statistics_report import format_report, make_report_page
    from bert_tf.utils.files import write_text
    from bert_tf.utils.shards import report_name, warn_of_others

    job = _job(settings)
    masking = _masking_vocabulary(job)
    statistics = _run_on_beam(job, settings) if settings.runner else create_pretraining_data(job)
    warn_of_others(settings.output_file, job.output_files)
    _warn_of_phrases(statistics, job.options)
    text = format_report(statistics, job.options, masking)
    name = report_name(settings.output_file)
    write_text(f"{name}.txt", text)
    write_text(f"{name}.html", make_report_page(statistics, job.options, masking))
    print(text)
    wrote = number_of(len(job.output_files), "file")
    logging.info("Wrote %s, such as %s, and %s.html.", wrote, job.output_files[0], name)


def _run_on_beam(job, settings):
    """Runs the job on --runner. Returns its `Statistics`."""
    require_packages("--runner", "apache_beam")
    from bert_tf.pretraining.corpus.beam import run_pipeline

    return run_pipeline(job, settings.runner, settings.beam_options)


def _job(settings):
    """Returns the `CorpusJob` that the flags ask for."""
    from bert_tf.pretraining.corpus.job import CorpusJob
    from bert_tf.utils import text_files
    from bert_tf.utils.resources import cores
    from bert_tf.utils.shards import output_files

    paths = text_files.find_text_files(settings.input_file)
    formats = text_files.formats_of(paths, settings.input_format, settings.language)
    _warn_of_ignored(formats, settings)
    if settings.work_dir and not os.path.isdir(settings.work_dir):
        raise ValueError(f"--work_dir must be an existing directory; got {settings.work_dir}. Create it first.")
    output = output_files(settings.output_file, settings.num_shards)
    job = CorpusJob(paths, formats, output, num_workers=settings.num_workers or cores(), work_dir=settings.work_dir)
    job = (_with_model if settings.init_checkpoint else _with_vocabulary)(job, settings)
    if job.tables.mask_id is None:
        source = settings.init_checkpoint or settings.vocab_file
        raise ValueError(
            f"The vocabulary of {source} lacks {job.tables.mask}. Append it as a line of its own, or train a "
            "vocabulary with `bert-tf vocab train`."
        )
    job.make_segmenter()  # raises its errors here rather than in another process
    logging.info(
        "Tokenizer: %s, %d tokens, %d of them added, --do_lower_case=%s.",
        *(job.tables.KIND, job.tables.vocab_size, len(job.tables.added_tokens), str(job.tables.do_lower_case).lower()),
    )
    return job


def _with_vocabulary(job, settings):
    """Returns the job with the WordPiece tokenizer of --vocab_file."""
    from bert_tf.tokenization.added_token_files import read_added_tokens
    from bert_tf.tokenization.file_precedence import case_of_vocabulary
    from bert_tf.tokenization.vocabulary import Vocabulary

    if not settings.vocab_file:
        raise ValueError(
            "Pass --init_checkpoint, a model whose tokenizer is used to create the records, or --vocab_file, a "
            "WordPiece vocabulary."
        )
    vocabulary = Vocabulary.read(settings.vocab_file)
    folder = os.path.dirname(os.path.abspath(settings.vocab_file))
    added_tokens = read_added_tokens(folder, vocabulary.tokens, vocabulary.id_of, SPECIAL_TOKENS)
    do_lower_case, strip_accents = case_of_vocabulary(settings.vocab_file, settings.do_lower_case)
    return dataclasses.replace(
        job,
        vocab_file=settings.vocab_file,
        do_lower_case=do_lower_case,
        strip_accents=strip_accents,
        added_tokens=added_tokens,
        options=_options(settings, settings.sentence_objective),
    )


def _with_model(job, settings):
    """Returns the job with the tokenizer of --init_checkpoint, and the sentence objective of its family."""
    from bert_tf.models import family_registry
    from bert_tf.models.config_files import model_type_in

    path = settings.init_checkpoint
    if not os.path.isdir(path):
        raise ValueError(f"--init_checkpoint must be the directory of a model; got {path}.")
    job = dataclasses.replace(job, model_directory=path, do_lower_case=settings.do_lower_case)
    objective, model_type = settings.sentence_objective, model_type_in(path)
    if "sentence_objective" not in settings.given:
        row = family_registry.family(model_type) if model_type else family_registry.with_tokenizer(job.tables.KIND)
        objective = row.sentence_objective
        logging.info("--sentence_objective=%s, as in the pretraining of %s.", objective, model_type or "its family")
    if objective != "none" and not job.tables.template.tells_texts_apart:
        raise ValueError(
            f"--sentence_objective must be none for the model in {path}, because it has no segment for a second text; "
            f"got {objective}. Omit --sentence_objective."
        )
    return dataclasses.replace(job, options=_options(settings, objective))


def _masking_vocabulary(job):
    """Returns the `MaskingVocabulary`, with the phrases of --phrase_file, some of which it must have tokens for."""
    from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary

    if job.options.phrase_file is None:
        return MaskingVocabulary.of_tokenizer(job.tables)
    masking = MaskingVocabulary.of_tokenizer(job.make_tokenizer(), job.options.phrase_file)
    known, unknown = masking.phrases.number, masking.phrases.unknown
    logging.info("Phrases: %d; skipped %d more that contain tokens not in the vocabulary.", known, unknown)
    return masking


def _warn_of_phrases(statistics, options):
    """Warns if no phrase of the list occurs in the text."""
    if options.phrase_file is not None and not statistics.phrases["found"]:
        logging.warning(
            "No phrase of %s occurs in any of the %d examples, so whole words were masked. Make sure that the phrases "
            "and the text are in the same language.",
            *(options.phrase_file, statistics.examples),
        )


def _warn_of_ignored(formats, settings):
    """Warns of flags that have no effect with the others that were given."""
    masked_later = "with --dynamic_masking, because training draws the masks" if settings.dynamic_masking else None
    on_beam = f"with --runner={settings.runner}" if settings.runner else None
    idle = {
        "max_sentences_per_seq": None if settings.packing else "without --packing",
        **dict.fromkeys(_OF_MASKS, masked_later),
        **dict.fromkeys(("num_workers", "work_dir"), on_beam),
        "beam_options": None if settings.runner else "without --runner",
        "document_start": None if "prose" in formats else "with files that are not prose",
        "text_column": None if "jsonl" in formats else "with files that are not JSONL",
    }
    for name, why in idle.items():
        if why and name in settings.given:
            logging.warning("--%s has no effect %s.", name, why)


def _options(settings, sentence_objective):
    """Returns the `CorpusOptions` that the flags describe."""
    from bert_tf.pretraining.corpus.options import CorpusOptions
    from bert_tf.utils.text_options import TextOptions

    return options_of(
        CorpusOptions,
        settings,
        sentence_objective=sentence_objective,
        masking="whole_word" if settings.do_whole_word_mask else settings.masking,
        phrase_file=None if settings.dynamic_masking else settings.phrase_file,
        text=options_of(TextOptions, settings),
    )
