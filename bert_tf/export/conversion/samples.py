"""Texts that hold every kind of token that a tokenizer has, by which two tokenizers are told apart."""

PLAIN = "Unaffable as ever, Zoë paid 3.50 € for a café crème in 東京 -- didn't she?"


def kinds_of(tokenizer) -> list:
    """Returns an added token of each combination of flags that the tokenizer's have, the first of each."""
    found = {}
    for token in tokenizer.added_tokens:
        found.setdefault((token.lstrip, token.rstrip, token.single_word, token.normalized), token)
    return list(found.values())


def sentence(tokenizer) -> str:
    """Returns a text to be computed from: an added token of each kind, then plain words."""
    return " ".join([*(token.content for token in kinds_of(tokenizer)), PLAIN])


def texts(tokenizer) -> list[str]:
    """Returns texts to be tokenized: plain words; the special tokens, which stay text; and each added token.

    An added token stands by itself, within words, between white space, twice in a row, before a special token, and in
    lower and upper case, with which its flags show.
    """
    special = list(dict.fromkeys(tokenizer.special_tokens.values()))
    found = [sentence(tokenizer), " ".join(special)]
    for token in tokenizer.added_tokens:
        content = token.content
        found += [content, f"paid{content}she", f"paid  {content}\tshe", f"paid,{content}{content}"]
        found += [content + special[0], f"paid {content.lower()} she {content.upper()}s"]
    return found
