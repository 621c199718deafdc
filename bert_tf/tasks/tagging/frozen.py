"""What does not go together with a frozen encoder."""

from bert_tf.utils.settings import Settings

_OF_THE_ENCODER = {  # setting -> its value where nothing was asked for
    "lora_rank": 0,
    "freeze_layers": "0",
    "layerwise_lr_decay": 1.0,
    "unfreeze_epochs": 0.0,
    "reinit_layers": 0,
    "rematerialize": False,
}


def check_frozen(settings: Settings):
    """Raises ValueError where settings say how a frozen encoder is trained, or its weights would be random."""
    if settings.features is None:
        return
    given = f"`features={settings.features}`"
    if not settings.init_checkpoint:
        raise ValueError(
            f"`features` must come with `init_checkpoint`. Received {given} alone, where the frozen weights would be "
            "random."
        )
    for name, unasked in _OF_THE_ENCODER.items():
        if settings.get(name) != unasked:
            raise ValueError(
                f"`features` must come without `{name}`, which is about training the encoder. Received {given} and "
                f"`{name}={settings.get(name)}`; leave one of the two out."
            )
