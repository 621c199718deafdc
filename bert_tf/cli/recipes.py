"""Settings by the name of a recipe."""

from absl import logging

from bert_tf.cli.flags.recipes import RECIPES
from bert_tf.utils.settings import Settings


def with_recipe(settings: Settings) -> Settings:
    """Returns the settings with the values of --recipe, if any, for the flags that the user did not give; logs both."""
    if not settings.recipe:
        return settings
    values = dict(RECIPES[settings.recipe])
    if "max_seq_length" in settings.given:  # one length all along
        values.pop("phases", None)
    logging.info("--recipe=%s: %s", settings.recipe, _shown(values.keys() - settings.given, values))
    given = {name: settings.get(name) for name in values if name in settings.given}
    if changed := [name for name in given if given[name] != values[name]]:
        logging.info("Given, and not as in --recipe=%s: %s", settings.recipe, _shown(changed, given))
    return settings.adopt(values)


def _shown(names, values):
    return " ".join(f"--{name}={values[name]}" for name in sorted(names))
