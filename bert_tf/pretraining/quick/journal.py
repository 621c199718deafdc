"""The completed steps in an output directory, so that the same command resumes: steps.json."""

import dataclasses
import json
import pathlib
from collections.abc import Collection, Mapping

from bert_tf.utils.files import check_free, write_text
from bert_tf.utils.manifest import check_same, read_manifest

JOURNAL_FILE = "steps.json"


@dataclasses.dataclass
class Journal:
    """The completed steps of a run.

    Attributes:
        path: path of its file.
        run: identity of the run, JSON values.
        steps: name -> {"command", "seconds"}.
    """

    path: pathlib.Path
    run: dict
    steps: dict[str, dict]

    @classmethod
    def of(cls, folder: str, run: Mapping, open_: Collection[str] = ()) -> "Journal":
        """Reads the journal of the run in a directory, or returns a new one if it is empty; writes nothing.

        Args:
            folder: the output directory.
            run: as in the attribute.
            open_: names in `run` whose values are taken from an existing run.

        Raises:
            ValueError: the directory has other contents, or a run with other settings.
        """
        path = pathlib.Path(folder, JOURNAL_FILE)
        if not path.exists():
            check_free(folder)
            return cls(path, dict(run), {})
        values = read_manifest(path, "choose a new `output_dir`, or remove this one")
        then = values.get("run", {})
        now = {**run, **{name: then.get(name) for name in open_}}
        check_same(path, then, now, "Choose another `output_dir`, or remove this one.")
        return cls(path, then, values.get("steps", {}))

    @property
    def seconds(self) -> float:
        """Returns the total duration of the completed steps."""
        return sum(step["seconds"] for step in self.steps.values())

    def note(self, step: str, command: str, seconds: float):
        """Records that a step completed successfully."""
        self.steps[step] = {"command": command, "seconds": round(seconds, 3)}
        self.write()

    def write(self):
        """Writes the journal."""
        write_text(self.path, json.dumps({"run": self.run, "steps": self.steps}, indent=1) + "\n")
