"""Where a run has its files, and what is to be made: what every task is told."""

import contextlib
import dataclasses
import os

from bert_tf.pretraining.corpus.options import Options
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.utils.files import temporary_beside


@dataclasses.dataclass(frozen=True)
class Context:
    """What every task knows.

    Attributes:
        directory: where the runs lie.
        vocab_file, do_lower_case: of the tokenizer.
        options: what to make.
        strip_accents: of the tokenizer; None: as do_lower_case.
        added_tokens: of the tokenizer.
    """

    directory: str
    vocab_file: str
    do_lower_case: bool
    options: Options
    strip_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] = ()

    def run(self, kind: str, *numbers: int) -> str:
        """Returns the folder of one run; names sort as the numbers do."""
        return os.path.join(self.directory, kind, "-".join(f"{n:08d}" for n in numbers))

    def runs(self, kind: str) -> list[str]:
        """Returns the folders of all runs of a kind, in the order of their numbers."""
        folder = os.path.join(self.directory, kind)
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


@contextlib.contextmanager
def scratch_folder(place: str, name: str):
    """Makes a hidden folder in `place` for the length of a `with` block.

    If the process is killed, the next one that makes such a folder in `place` removes what was left.
    """
    with temporary_beside(os.path.join(place, name)) as directory:
        os.mkdir(directory, 0o700)  # others can neither read the text nor put files there
        yield directory
