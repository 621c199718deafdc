"""Heads of all tasks: which of their weights may be missing from a checkpoint or unused.

A task only names its own head (`Model.head`). Checkpoints of other tasks may have any of the others.
"""


# By our paths, and by the file's names for unknown weights. A new head needs a line here, except custom tasks' `head`.
HEADS = (
    r"cls[/.].*",  # pretraining's, and that of question answering
    r"classifier[/.].*",
    r"generator/.*",  # a whole network: what was trained with a model that tells replaced tokens
    r"tagger[/.].*",  # of a frozen encoder's features
    r"recurrent[/.].*",  # a BiLSTM and what is on it, for any task
    r"head/.*",  # a custom task's
    r"([^/]*[._])?heads?[.].*",  # a part that calls itself so: "task_heads.ner.bias"
)
POOLER = "bert/pooler/dense/.*"
OUTPUTS = r"((recurrent|tagger)/)?classifier/output_(weights|bias)"  # with one row per label


def others(own: tuple[str, ...]) -> tuple[str, ...]:
    """Returns patterns of the weights of all heads except a task's own.

    Args:
        own: patterns of our variable paths.

    Returns:
        Regular expressions for `assign_weights`.
    """
    but = f"(?!(?:{'|'.join(own)})$)" if own else ""
    return tuple(f"{but}{pattern}" for pattern in HEADS)


def fresh(task) -> tuple[str, ...]:
    """Returns patterns of the variables that may be missing from the checkpoint that training starts from.

    These are the task's head, which is new, and the pooler, which a sentence encoder or another task's model may lack.
    """
    return (*task.head, POOLER)


def unused(task) -> tuple[str, ...]:
    """Returns patterns of weights that the task does not use, in a checkpoint or in its own model.

    These are the heads of other tasks, and the pooler if the task's head does not use it.
    """
    return (*others(task.head), *(() if task.uses_pooler else (POOLER,)))
