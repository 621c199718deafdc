"""Flags of TF Hub's pair of SavedModels."""

from bert_tf.utils.settings import Flag

HUB = (
    Flag("hub", False, "Export TF Hub's pair, a preprocessor and an encoder that can be trained further, into two "
         "folders of --export_dir; --model may then be any checkpoint.", "bool"),  # fmt: skip
    Flag("default_seq_length", None, "With --hub: pieces in a row that the preprocessor makes; default: 128, or as "
         "many as the model has positions.", "integer", low=3),  # fmt: skip
)
