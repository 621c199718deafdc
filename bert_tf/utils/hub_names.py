"""Names of models on the Hugging Face Hub, distinguished from local paths."""

import os
import re
from typing import NamedTuple

_NAME = re.compile(r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>(?!.*\.\.)\w[\w./-]*))?")
_FILE_NAME = re.compile(r".*\.(safetensors|bin|ckpt(-\d+)?|pth?|h5|index|json|txt)")


class HubName(NamedTuple):
    """A model of the Hub: organization/model, and a branch, a tag or a commit, or None."""

    repository: str
    revision: str | None


def hub_name(path: str) -> HubName | None:
    """Returns the name that `path` is, or None for a local path.

    A local path of the same form takes precedence; without a revision, so does a local directory of the organization's
    name, in which the model may be misspelled.
    """
    match = _NAME.fullmatch(path)
    if not match or _FILE_NAME.fullmatch(path) or os.path.lexists(path) or os.path.exists(f"{path}.index"):
        return None
    repository, revision = match["repository"], match["revision"]
    if not revision and os.path.isdir(repository.partition("/")[0]):
        return None
    return HubName(repository, revision)
