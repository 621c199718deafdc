"""How findings are told: a line each, a remedy below each fault."""

import pytest

from bert_tf.cli.doctor import FAULT, NOTE, OK, WARNING, Finding, findings_json, is_healthy, to_text

FINDINGS = [
    Finding("one", OK, "fine"),
    Finding("two", NOTE, "fine too"),
    Finding("three", WARNING, "slow", "hurry"),
    Finding("four", FAULT, "broken", "mend it", {"pieces": 2}),
]


def test_lines():
    assert to_text(FINDINGS).splitlines() == [
        "ok       one              fine",
        "note     two              fine too",
        "warning  three            slow",
        "                          remedy: hurry",
        "FAULT    four             broken",
        "                          remedy: mend it",
        "",
        "1 fault, 1 warning.",
    ]
    assert to_text(FINDINGS[:2]).endswith("\n\nNothing is wrong.")


def test_json():
    told = findings_json(FINDINGS)
    assert told["healthy"] is False and is_healthy(FINDINGS[:3])
    fault = {"name": "four", "state": FAULT, "text": "broken", "remedy": "mend it", "values": {"pieces": 2}}
    assert told["findings"][3] == fault


def test_a_fault_has_a_remedy_and_a_note_has_none():
    for state, remedy in ((FAULT, ""), (OK, "do it")):
        with pytest.raises(AssertionError):
            Finding("name", state, "text", remedy)
