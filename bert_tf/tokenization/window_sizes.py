"""The windows of a text and of a question's context, in plain numbers."""

from bert_tf.models.family_spec import InputTemplate


def check_question_lengths(template: InputTemplate, max_seq_length: int, max_query_length: int, doc_stride: int):
    """Raises ValueError if a sequence has no room for the context, or tokens would fall between two windows."""
    special = template.special(2)
    room = max_seq_length - max_query_length - special
    if room < 1:
        raise ValueError(
            f"`max_seq_length` must be greater than `max_query_length` + {special}, for the question, "
            f"{' '.join(template.pieces(2))} and some of the context; got {max_seq_length} and "
            f"{max_query_length}; raise `max_seq_length` or lower `max_query_length`."
        )
    if not 1 <= doc_stride <= room:
        raise ValueError(
            f"`doc_stride` must be from 1 to `max_seq_length` - `max_query_length` - {special} = {room}, the room for "
            f"the context next to the longest question; got {doc_stride}; with a larger stride, tokens would "
            "fall between two windows."
        )


def window_starts(length: int, room: int, stride: int) -> range:
    """Returns the first token of each window of a text; arguments are those of `windows.find_windows`, for one text."""
    stride = max(min(stride, room), 1)
    return range(0, stride * max(0, -(-(length - room) // stride)) + 1, stride)


def kept_of_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """Returns the number of tokens kept of each text of a pair, as `special_tokens.pair_lengths` for many pairs."""
    keep = min(second, max(room // 2, room - first))
    return min(first, room - keep), keep
