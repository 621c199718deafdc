"""shim"""
from bert_tf.checkpoints.loading import load_description


class _Shim:
    def __init__(self, t):
        self._t = t
        self.template, self.id_of, self.unk_id, self.pad_id = t.template, t.id_of, t.unk_id, t.pad_id

    def ids(self, text):
        return self._t.tokenize([text]).to_list()[0]

    def tokens(self, text):
        return tuple(x.to_list()[0] for x in self._t.tokenize_with_offsets([text]))


def load_fast_tokenizer(folder):
    return _Shim(load_description([folder]).tokenizer)
