"""The tables of SentencePiece's unigram models (Kudo 2018): a model file or tokenizer.json, and its settings."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import file_precedence, tokenizer_json_writer
from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.letter_case import case_setting
from bert_tf.tokenization.special_token_files import family_of_tokenizer
from bert_tf.tokenization.tokenizer_config import (
    CASE_OF_UNIGRAM,
    CONFIG_FILE,
    check_tokenizer_config,
    without_unread_case,
)
from bert_tf.tokenization.tokenizer_json import METASPACE
from bert_tf.tokenization.tokenizer_tables import TokenizerTables, TokenList
from bert_tf.utils.files import atomic_open

# What Transformers calls a tokenizer of all families but those whose row says otherwise.
USUAL_CLASS = "AlbertTokenizer"
_OF_FAIRSEQ = "sentencepiece.bpe.model"  # whose readers in Transformers put tokens before the model's
_OF_CLASS = {
    USUAL_CLASS: "spiece.model", "XLMRobertaTokenizer": _OF_FAIRSEQ, "CamembertTokenizer": _OF_FAIRSEQ,
    "DebertaV2Tokenizer": "spm.model",
}  # fmt: skip
_TRAILING_SPACE = ("dropped", "kept", "kept_inside")
_PENALTY = 100.0  # what keeps "9," from being one token, as in Hugging Face's tokenizers for ALBERT
_REPLACED = -1  # in place of the id of a piece


def _penalize_digit_comma(model):
    for piece in model.pieces:
        if len(piece.piece) > 1 and piece.piece[-1] == "," and piece.piece[-2].isdigit():
            piece.score -= _PENALTY


def _place_tokens(model, front, behind, replaces):
    """Returns (token, score) for each id, and the id of each piece of the model, int32 [pieces]."""
    first = (models.first_ordinary(model) if replaces is None else replaces) if front else 0
    scores = [(token, 0.0) for token in front]
    scores += [(piece.piece, piece.score) for piece in model.pieces[first:]]
    scores += [(token, 0.0) for token in behind]
    ids = np.arange(len(model.pieces), dtype=np.int32) + len(front) - first
    ids[:first] = _REPLACED
    return scores, ids


def _check_trailing_space(trailing_space):
    if trailing_space not in _TRAILING_SPACE:
        raise ValueError(
            f"`trailing_space` must be {', '.join(_TRAILING_SPACE[:-1])} or {_TRAILING_SPACE[-1]}; got "
            f"{trailing_space!r}."
        )


@dataclasses.dataclass(frozen=True)
class UnigramModel:
    """A SentencePiece model and the ids of its tokens. Not a tuple, of which tf.Module would track each score.

    Attributes:
        message: the model, as of `sentencepiece_model.read_model`.
        data: the bytes of its file.
        scores: (token, score) of each id.
        ids: int32 [tokens], the id of each token of the model.
        mapping: its character map, characters -> replacement.
    """

    message: Any
    data: bytes
    scores: list[tuple[str, float]]
    ids: np.ndarray
    mapping: Mapping[str, str]

    @property
    def known(self) -> set[str]:
        """The characters of the tokens that represent text."""
        pieces = (each.piece for each in self.message.pieces if each.type not in (models.CONTROL, models.UNKNOWN))
        return {char for piece in pieces for char in piece}


class UnigramTables(TokenizerTables):
    """The model and the settings of a unigram tokenizer.

    Attributes:
        model: the `UnigramModel`.
        keep_accents: if true, text is not decomposed (NFKD) and keeps its marks.
        straight_quotes: whether `` and '' become ".
        trailing_space: handling of a space at the end of a text, see the constructor.
        maps_characters: whether the model replaces characters, such as full-width forms.
    """

    KIND: ClassVar = "unigram"
    FILES: ClassVar = ("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")

    def __init__(
        self,
        vocab_file: str | os.PathLike,
        template: InputTemplate,
        do_lower_case: bool = False,
        keep_accents: bool = True,
        straight_quotes: bool = False,
        split_digit_comma: bool = False,
        trailing_space: str = "dropped",
        front: Sequence[str] = (),
        behind: Sequence[str] = (),
        tokenizer_class: str = USUAL_CLASS,
        replaces: int | None = None,
        model_data: bytes | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Reads a SentencePiece model.

        Args:
            vocab_file: path of the model file.
            template: the family's input template.
            do_lower_case: whether each character is lowercased.
            keep_accents: see above.
            straight_quotes: see above.
            split_digit_comma: whether a comma after a digit is a token of its own.
            trailing_space: handling of a space at the end of a text or before an added token. "dropped": removed, as in
                SentencePiece; "kept": becomes a token "▁" of its own; "kept_inside": the same, but only before an added
                token that is matched in normalized text. The pre_tokenizer of tokenizer.json decides this.
            front: tokens in place of the first ones of the model; () keeps them.
            behind: tokens after the model's, unless it has them.
            tokenizer_class: the corresponding class name of Hugging Face.
            replaces: number of tokens that `front` replaces. If None, all control tokens at the beginning of the model.
            model_data: the bytes of the model, if `vocab_file` is the tokenizer.json it was built from.
            added_tokens: tokens matched in the text before it is split; after the vocabulary, or in it with the same
                ids.

        Raises:
            ValueError: the file is not a unigram model, a special token is missing, or an added token does not match
                the vocabulary.
        """
        message, data = models.read_model(vocab_file, model_data)
        if split_digit_comma:
            _penalize_digit_comma(message)
        there = {piece.piece for piece in message.pieces}
        behind = [token for token in behind if token not in there]
        scores, ids = _place_tokens(message, front, behind, replaces)
        tokens = [token for token, _ in scores]
        vocabulary = TokenList(tokens, {token: i for i, token in reversed(list(enumerate(tokens)))})
        super().__init__(vocabulary, vocab_file, template, (template.pad, template.unknown, template.mask))
        self.do_lower_case, self.keep_accents = bool(do_lower_case), bool(keep_accents)
        self.straight_quotes, self._tokenizer_class = bool(straight_quotes), tokenizer_class
        _check_trailing_space(trailing_space)
        self.trailing_space = trailing_space
        more = {"split_digit_comma": split_digit_comma, "front": list(front), "behind": list(behind)}
        more |= {} if replaces is None else {"replaces": replaces}
        self._more = more  # complete: TensorFlow saves no dictionary that changes after it became an attribute
        ids[ids == _REPLACED] = self.unk_id
        mapping = models.character_map(message.normalizer_spec.precompiled_charsmap, self.vocab_file)
        self.model = UnigramModel(message, data, scores, ids, mapping)
        self.maps_characters = bool(mapping)
        self._take_added_tokens(added_tokens)

    @classmethod
    def _owner(cls, directory, config, family, template, whole):
        path = os.path.join(directory, CONFIG_FILE)
        return family_of_tokenizer(path, config, cls.KIND, family, template, whole.layout if whole else None)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        config_path = os.path.join(directory, CONFIG_FILE)
        settings = dict(family.tokenizing_by(cls.KIND))
        own_class = settings.get("tokenizer_class", USUAL_CLASS) if settings else None
        check_tokenizer_config(config_path, config, cls.KIND, own_class)
        config = without_unread_case(config_path, config, settings.get("tokenizer_class"))
        usual = settings.get("do_lower_case", False)
        settings["do_lower_case"] = case_setting(config_path, config, do_lower_case, usual)
        settings["keep_accents"] = config.get("keep_accents", settings.get("keep_accents", True))
        known = (("keep_accents", (True, False)), ("remove_space", (None, True)), ("add_prefix_space", (None, True)))
        for key, values in known:
            if settings.get(key, config.get(key)) not in values:
                raise ValueError(
                    f"{config_path}: {key} must be {' or '.join(json.dumps(v) for v in values if v is not None)}; "
                    f"got {json.dumps(config.get(key))}; other settings are not supported."
                )
        return settings

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        """Builds the tokenizer and its SentencePiece model, which equals the family's as far as possible."""
        settings |= file_precedence.unigram_settings(
            whole, directory, do_lower_case, settings.get("tokenizer_class")
        )
        scores, unknown = whole.model["vocab"], whole.model.get("unk_id")
        tokens = whole.vocabulary(template)
        if type(unknown) is not int or tokens[unknown : unknown + 1] != [template.unknown]:
            raise ValueError(
                f"{whole.path}: model.unk_id must be the id of {template.unknown}; got {unknown}; use the "
                "tokenizer.json that belongs to the model."
            )
        settings["split_digit_comma"] = False  # the scores have it already, if at all
        front, behind = (tuple(settings.get(key, ())) for key in ("front", "behind"))
        end = whole.own - len(behind)
        kinds = dict.fromkeys({*whole.special, *template.pieces(2), template.pad, template.mask}, models.CONTROL)
        kinds[template.unknown] = models.UNKNOWN
        if front and tuple(tokens[: len(front)]) == front and tuple(tokens[end : whole.own]) == behind:
            settings["behind"] = tuple(tokens[end:])
            control = [template.unknown, template.before[0], template.after[-1]][: settings.get("replaces")]
            entries = [(token, 0.0, kinds[token]) for token in control]
            own = set(template.pieces(2))  # which some models have among their pieces
            rest = ((*scores[i], tokens[i] in own) for i in range(len(front), end))
            entries += [(token, score, models.CONTROL if owned else models.NORMAL) for token, score, owned in rest]
        else:
            settings |= {"front": (), "behind": (), "replaces": None}
            entries = [(*entry, kinds.get(entry[0], models.NORMAL)) for entry in scores]
            entries += [(token, 0.0, models.CONTROL) for token in tokens[whole.own :]]
        data = models.model_bytes(entries, whole.character_map)
        tokenizer = cls(whole.path, template, **settings, model_data=data)
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            other = [piece.piece for piece in models.read_model(path)[0].pieces if piece.type in (0, models.NORMAL)]
            there = {*other}
            file_precedence.warn_of_vocabulary(
                whole.path, [token for token in tokens[: whole.own] if token in there], path, other
            )
        return tokenizer

    @property
    def written_tokens(self) -> list[str]:
        added = {token.content for token in self.added_tokens}
        return [token if token in added else token.replace(METASPACE, " ") for token in self.vocab]

    @property
    def reserved_tokens(self) -> set[str]:
        """The tokens that represent no text, with the control tokens of the model."""
        kinds = (models.CONTROL, models.UNKNOWN, models.UNUSED)
        return super().reserved_tokens | {each.piece for each in self.model.message.pieces if each.type in kinds}

    @property
    def splits_at_spaces(self) -> bool:
        """False as well where a space at the end of a text, or before a "▁" of the text itself, becomes a token."""
        return super().splits_at_spaces and self.trailing_space == "dropped"

    @property
    def deciding_values(self) -> dict[str, Any]:
        scores = [(each.piece, each.score) for each in self.model.message.pieces if each.type in (0, models.NORMAL)]
        names = ("straight_quotes", "trailing_space", "keep_accents")
        return {"scores": scores, **{name: getattr(self, name) for name in names}}

    @property
    def settings(self) -> dict[str, Any]:
        names = ("do_lower_case", "keep_accents", "straight_quotes", "trailing_space")
        named = {name: getattr(self, name) for name in names}
        return self._with_added(named | {"tokenizer_class": self._tokenizer_class} | self._more)

    def _join(self, ids):
        text = super()._join(ids)
        return text[1:] if ids and self._texts[ids[0]].startswith(" ") else text  # which every text is given

    def _write_vocabulary(self, directory):
        with atomic_open(os.path.join(directory, self._model_name), "wb") as file:
            file.write(self.model.data)

    def _tokenizer_json(self):
        blob = self.model.message.normalizer_spec.precompiled_charsmap
        return tokenizer_json_writer.unigram_json(self, self.model.scores, blob)

    def _tokenizer_config(self):
        # Only what the class reads: tokenizer.json, which is written too, has all of it.
        settings = {name: getattr(self, name) for name in CASE_OF_UNIGRAM.get(self._tokenizer_class, ())}
        settings |= self.special_tokens | added_tokens_config(self.added_tokens, self.special_added_tokens)
        return self._tokenizer_class, settings

    @property
    def remarks_for_transformers(self) -> tuple[str, ...]:
        """Remarks on what Transformers tokenizes otherwise: version 5 ignores the character map of one class."""
        if self._tokenizer_class != "DebertaV2Tokenizer" or not self.maps_characters:
            return ()
        return (
            "Transformers 5 does not apply the character map of this vocabulary: full-width forms such as '\uff0c' "
            "stay as they are and may become the unknown token. Transformers 4 and bert_tf map them, as in training. "
            "For equal tokens in Transformers 5, normalize its texts to NFKC.",
        )

    @property
    def _mask_lstrip(self):
        return self._tokenizer_class != "DebertaV2Tokenizer"

    @property
    def _model_name(self):
        """File name of the saved SentencePiece model: Hugging Face's, unless its reader would give the tokens other
        ids."""
        name = os.path.basename(self.vocab_file)
        if name in self.FILES:
            return name
        usual = _OF_CLASS.get(self._tokenizer_class, self.FILES[0])
        return usual if usual != _OF_FAIRSEQ or self._more["front"] else self.FILES[-1]
