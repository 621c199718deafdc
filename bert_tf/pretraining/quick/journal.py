"""What is done in an output directory, so that the same command goes on: steps.json."""

import dataclasses
import json
import pathlib
from collections.abc import Collection, Mapping

from bert_tf.utils.files import check_free, write_text
from bert_tf.utils.json_files import read_object
from bert_tf.utils.settings import changes

JOURNAL_FILE = "steps.json"


@dataclasses.dataclass
class Journal:
    """The finished steps of a run.

    Attributes:
        path: of its file.
        run: what the run is made of, JSON values.
        steps: name -> {"command", "seconds"}.
    """

    path: pathlib.Path
    run: dict
    steps: dict[str, dict]

    @classmethod
    def of(cls, folder: str, run: Mapping, open_: Collection[str] = ()) -> "Journal":
        """Returns that of the run in a folder, or a new one where nothing is there yet; writes nothing.

        Args:
            folder: the output directory.
            run: see `run`.
            open_: names in it whose values are those of the run which is there, if there is one.

        Raises:
            ValueError: there is something else in the folder, or a run of other settings.
        """
        path = pathlib.Path(folder, JOURNAL_FILE)
        if not path.exists():
            check_free(folder)
            return cls(path, dict(run), {})
        values = read_object(path, "the record of pretrain_small", "name another `output_dir`, or remove it all")
        then = values.get("run", {})
        if changed := changes(then, {**run, **{name: then.get(name) for name in open_}}):
            raise ValueError(
                f"`output_dir` must hold a run of the same settings, or none. Received {folder}, with "
                f"{'; '.join(changed)}; name another, or remove it."
            )
        return cls(path, then, values.get("steps", {}))

    def is_done(self, step: str) -> bool:
        """Says whether a step has ended well."""
        return step in self.steps

    @property
    def seconds(self) -> float:
        """Seconds that the finished steps took."""
        return sum(step["seconds"] for step in self.steps.values())

    def note(self, step: str, command: str, seconds: float):
        """Writes that a step has ended well."""
        self.steps[step] = {"command": command, "seconds": round(seconds, 3)}
        self.write()

    def write(self):
        """Writes all of it."""
        write_text(self.path, json.dumps({"run": self.run, "steps": self.steps}, indent=1) + "\n")
