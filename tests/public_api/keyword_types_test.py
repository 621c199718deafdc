"""The keywords that editors know are the settings that there are."""

from tools.docs import keyword_types


def test_they_are_up_to_date():
    written = keyword_types.PATH.read_text(encoding="utf-8")
    assert written == keyword_types.text(), "`python -m tools.docs.keyword_types` writes them anew"
    for line in ("learning_rate: float | str", "init_checkpoint: str | os.PathLike[str] | None"):
        assert f"    {line}\n" in written
