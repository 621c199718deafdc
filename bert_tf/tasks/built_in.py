"""The built-in tasks: one row each, which names the contents of the task's folder. Imports no TensorFlow.

The docstring of a task's `__init__.py` is the help of its command.
"""

import importlib
from typing import Any, NamedTuple


class BuiltInTask(NamedTuple):
    """One built-in task.

    Attributes:
        name: its name in task.json, and of its folder in `tasks`.
        task_class: its class in task.py.
        options_class: the class of its options in options.py.
        command: the command that trains it, as programs name it; accepted, but not shown.
        alias: the command as help, messages and documentation name it: "train NOUN".
        guide: the page of docs/ that shows how to use it, without ".md".
    """

    name: str
    task_class: str
    options_class: str
    command: str
    alias: str
    guide: str

    def load_task(self) -> Any:
        """Imports and returns the class of the task, which requires TensorFlow."""
        return getattr(importlib.import_module(f"bert_tf.tasks.{self.name}.task"), self.task_class)

    def load_options(self) -> Any:
        """Imports and returns the class of its options, a `RunOptions`; imports no TensorFlow."""
        return getattr(importlib.import_module(f"bert_tf.tasks.{self.name}.options"), self.options_class)


# In the order in which commands are listed.
BUILT_IN_TASKS = (
    BuiltInTask("classification", "ClassificationTask", "ClassificationOptions",
                "run_classifier", "train classifier", "guides/text_classification"),
    BuiltInTask("tagging", "TaggingTask", "TaggingOptions",
                "run_tagger", "train tagger", "guides/named_entity_recognition"),
    BuiltInTask("question_answering", "QuestionAnsweringTask", "SquadOptions",
                "run_squad", "train qa", "guides/question_answering"),
    BuiltInTask("multiple_choice", "MultipleChoiceTask", "MultipleChoiceOptions",
                "run_multiple_choice", "train choice", "guides/multiple_choice"),
    BuiltInTask("embedding", "EmbeddingTask", "EmbeddingOptions",
                "run_embedder", "train embedder", "guides/train_embeddings"),
    BuiltInTask("reranking", "RerankingTask", "RerankingOptions",
                "run_reranker", "train reranker", "guides/reranking"),
)  # fmt: skip
