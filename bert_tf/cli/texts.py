"""What the flags of `flags.corpus.CORPUS` say of texts."""

from bert_tf.utils.settings import Settings


def text_options(settings: Settings):
    """Returns the `TextOptions`: how documents and sentences are found."""
    from bert_tf.utils.text.documents import TextOptions

    return TextOptions(
        settings.text_column, settings.document_start, settings.language, settings.drop_junk_lines
    )  # fmt: skip
