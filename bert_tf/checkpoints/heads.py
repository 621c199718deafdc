"""Which weights a checkpoint may lack, or have left over: the heads of all tasks, in one list.

A task names its own head only (`Model.head`). All others are what a checkpoint of another task may have on top.
"""

# By our paths, and by the file's own names where no map of names knows them. A new head has its line here.
HEADS = (
    r"cls[/.].*",  # pretraining's, and that of question answering
    r"classifier[/.].*",
    r"generator/.*",  # a whole network: what was trained with a model that tells replaced tokens
    r"tagger[/.].*",  # of a frozen encoder's features
    r"recurrent[/.].*",  # a BiLSTM and what is on it, for any task
    r"([^/]*[._])?heads?[.].*",  # a part that calls itself so: "task_heads.ner.bias"
)
POOLER = "bert/pooler/dense/.*"


def others(own: tuple[str, ...]) -> tuple[str, ...]:
    """Returns patterns of the heads' weights but those of a task's own head.

    Args:
        own: patterns of our variable paths.

    Returns:
        regular expressions, as `assign_weights` takes them.
    """
    but = f"(?!(?:{'|'.join(own)})$)" if own else ""
    return tuple(f"{but}{pattern}" for pattern in HEADS)


def fresh(task) -> tuple[str, ...]:
    """Returns patterns of the variables that need not be in the checkpoint which training starts from.

    They are the task's head, which is new, and the pooler, without which a sentence encoder or another task's model may
    come.
    """
    return (*task.head, POOLER)


def unused(task) -> tuple[str, ...]:
    """Returns patterns of weights for which the task has no use, in a checkpoint or in its own model.

    They are the other tasks' heads, and the pooler below a head that does not read it.
    """
    return (*others(task.head), *(() if task.uses_pooler else (POOLER,)))
