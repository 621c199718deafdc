"""Texts with every kind of token of a tokenizer, which reveal differences between two tokenizers."""

PLAIN = "Unaffable as ever, Zoë paid 3.50 € for a café crème in 東京 -- didn't she?"


def added_token_kinds(tokenizer) -> list:
    """Returns one added token for each combination of flags in the tokenizer, the first of each."""
    found = {}
    for token in tokenizer.added_tokens:
        found.setdefault((token.lstrip, token.rstrip, token.single_word, token.normalized), token)
    return list(found.values())


def sample_text(tokenizer) -> str:
    """Returns a text to run the model on: an added token of each kind, then plain words."""
    return " ".join([*(token.content for token in added_token_kinds(tokenizer)), PLAIN])


def tokenizer_samples(tokenizer) -> list[str]:
    """Returns texts to tokenize: plain words; the special tokens together; each special and added token.

    Each token appears by itself, within words, between whitespace, twice in a row, before a special token, and in lower
    and upper case, which makes its flags visible.
    """
    special = list(dict.fromkeys(tokenizer.special_tokens.values()))
    found = [sample_text(tokenizer), " ".join(special)]
    for content in dict.fromkeys([*special, *(token.content for token in tokenizer.added_tokens)]):
        found += [content, f"paid{content}she", f"paid  {content}\tshe", f"paid,{content}{content}"]
        found += [content + special[0], f"paid {content.lower()} she {content.upper()}s"]
    return found
