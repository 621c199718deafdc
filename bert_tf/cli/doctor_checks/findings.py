"""What the doctor finds: one line each, and one remedy for each fault."""

import dataclasses
import textwrap
from collections.abc import Iterable
from typing import Any

OK, NOTE, WARNING, FAULT = "ok", "note", "warning", "fault"
_WIDE = 16  # of the column of names


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        name: what was looked at, in a word or two.
        state: OK; NOTE: it works, and is worth knowing; WARNING: it works worse than it could; FAULT: it is broken.
        text: what was found.
        remedy: what to do; only a warning and a fault have one, and a fault always.
        values: the figures behind the text, for --json.
    """

    name: str
    state: str
    text: str
    remedy: str = ""
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        assert bool(self.remedy) == (self.state in (WARNING, FAULT)), self


def to_text(findings: Iterable[Finding]) -> str:
    """Returns the lines that the program prints, and a last one that counts."""
    findings = list(findings)
    lines = [line for finding in findings for line in _lines(finding)]
    counts = {state: sum(finding.state == state for finding in findings) for state in (FAULT, WARNING)}
    told = [f"{count} {state}{'s' * (count > 1)}" for state, count in counts.items() if count]
    return "\n".join([*lines, "", f"{', '.join(told) or 'Nothing is wrong'}."])


def _lines(finding):
    state = finding.state.upper() if finding.state == FAULT else finding.state
    yield f"{state:<8} {finding.name:<{_WIDE}} {finding.text}"
    if finding.remedy:
        yield textwrap.indent(f"remedy: {finding.remedy}", " " * (_WIDE + 10))


def to_json(findings: Iterable[Finding]) -> dict[str, Any]:
    """Returns what --json prints: {"healthy": whether there is no fault, "findings": [their attributes]}."""
    findings = list(findings)
    return {"healthy": is_healthy(findings), "findings": [dataclasses.asdict(finding) for finding in findings]}


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Says whether nothing is broken; warnings do not count."""
    return all(finding.state != FAULT for finding in findings)
