"""The tokenizer of a model, from the files in its directory; TensorFlow is imported only for graphs."""

import os
from collections.abc import Mapping

from bert_tf.checkpoints import keras_hub
from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig, template_for
from bert_tf.models.config_files import model_type_in
from bert_tf.tokenization.table_registry import TABLES, read_tables, tokenizer_in
from bert_tf.tokenization.tokenizer_json import is_tokenizer_json
from bert_tf.tokenization.tokenizer_tables import TokenizerTables
from bert_tf.tokenization.wordpiece_tables import WordPieceTables


def read_model_tokenizer(
    directory: str,
    do_lower_case: bool | None = None,
    vocab_file: str | os.PathLike | None = None,
    config: EncoderConfig | None = None,
    kinds: Mapping[str, type[TokenizerTables]] = TABLES,
) -> TokenizerTables:
    """Builds the tokenizer of a model; for a KerasHub preset, accents are treated as the preset specifies.

    Args:
        directory: directory of a checkpoint in any format, or of a tokenizer.
        do_lower_case: whether to lowercase text. If None, as in the files.
        vocab_file: another vocabulary to use instead of the directory's.
        config: configuration of the model. If None, that in the directory; without one, the first family with a
            tokenizer of this kind determines the special tokens.
        kinds: the class of each kind of tokenizer: `table_registry.TABLES`, or `registry.TOKENIZERS` to run in the
            graph.

    Raises:
        ValueError: there is no tokenizer, or the content of a file does not match its name.
    """
    if config is None and model_type_in(directory):
        config = EncoderConfig.load(directory)
    if config is not None:
        family, template = family_registry.family(config.model_type), template_for(config)
    else:
        family = TABLES[tokenizer_in(directory) or WordPieceTables.KIND].family_of(directory)
        template = family.template
    wordpiece, preset = kinds[WordPieceTables.KIND], keras_hub.tokenizer_of(directory)
    if preset:
        lower = preset.do_lower_case if do_lower_case is None else do_lower_case
        if vocab_file is None and lower is not None and lower == preset.do_lower_case:
            return wordpiece(preset.vocab_file, lower, template, preset.strip_accents)
        vocab_file, do_lower_case = vocab_file or preset.vocab_file, lower
    tokenizer = read_tables(directory, family, template, do_lower_case, vocab_file, kinds)
    if not preset or not isinstance(tokenizer, wordpiece) or is_tokenizer_json(vocab_file):  # which states its accents
        return tokenizer
    if lower != preset.do_lower_case or preset.strip_accents in (None, tokenizer.strip_accents):
        return tokenizer
    return wordpiece(
        tokenizer.vocab_file, lower, tokenizer.template, preset.strip_accents, added_tokens=tokenizer.listed_tokens
    )
