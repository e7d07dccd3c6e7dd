"""Compare this implementation with reference cases: `python -m tests.vectors.run FILE`.

Prints for every answer field how many answers were compared, and how many agreed; names fields
that were left out; ends with the first differences and `N passed, N failed`. A case passes only
if every field of its answer was compared and agrees. Exit status 1 on any failure.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import track

from tests.vectors import compaction_answers, log_answers, part_answers, session_answers
from tests.vectors.agreement import difference, without_fixed_texts
from tests.vectors.cases import Case, read_cases
from tests.vectors.log_answers import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHOWN: Final = 20

ANSWERS: Final[dict[str, Callable[[Case], Any]]] = {
    "fold": log_answers.fold,
    "seed": log_answers.seed,
    "restore": log_answers.restore,
    "load": log_answers.load,
    "closers": log_answers.closers,
    "requestHeader": log_answers.request_header,
    "title": log_answers.title,
    "invariants": log_answers.invariants,
    "projections": log_answers.projections,
    "records": log_answers.records,
    "documents": log_answers.documents,
    "trace": log_answers.traces,
    "rows": log_answers.rows,
    "surface": session_answers.surface,
    "messages": session_answers.messages,
    "perNode": session_answers.per_node,
    "requestContext": session_answers.request_context,
    "sessionRequestHeader": session_answers.session_request_header,
    "pairing": session_answers.pairing,
    "measure": session_answers.measure,
    "nodeTokens": session_answers.node_tokens,
    "headerTokens": session_answers.header_tokens,
    "range": session_answers.ranges,
    "append": session_answers.appends,
    "appendNodes": session_answers.append_nodes,
    "fork": session_answers.fork,
    "pruneSession": session_answers.prune_session,
    "compact": compaction_answers.compact,
    "compactConfig": compaction_answers.compact_config,
    "assembled": part_answers.assembled,
    "prune": part_answers.prune,
    "jsonl": part_answers.jsonl,
}


@dataclass
class Report:
    """What was compared so far, by answer field."""

    compared: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    passed: int = 0
    failed: int = 0

    def take(self, case: Case) -> None:
        """Compare one case."""
        before = len(self.differences)
        for name, expected in case.answer.items():
            if name == "id":
                continue
            if name not in ANSWERS:
                self.left_out[name] += 1
                self.differences.append(f"{case.name}: no answer to {name}")
                continue
            self.compared[name] += 1
            found = _difference(case, name, expected)
            if found is None:
                self.agreed[name] += 1
            else:
                self.differences.append(f"{case.name}: {found}")
        agrees = len(self.differences) == before
        self.passed += agrees
        self.failed += not agrees

    def print(self) -> None:
        """Print the figures, the first differences and the verdict."""
        for name in sorted(self.compared):
            say(f"{name:22} {self.agreed[name]:6} of {self.compared[name]:6} agree")
        left_out = ", ".join(f"{name} ({count})" for name, count in self.left_out.items())
        say(f"fields left out: {left_out or 'none'}")
        for text in self.differences[:SHOWN]:
            say(text)
        if len(self.differences) > SHOWN:
            say(f"... and {len(self.differences) - SHOWN} differences more")
        say(f"{self.passed} passed, {self.failed} failed")


def say(text: str) -> None:
    """Print a line; what differs may hold half a surrogate pair, which has no bytes."""
    sys.stdout.write(text.encode(errors="backslashreplace").decode() + "\n")


def _difference(case: Case, name: str, expected: Any) -> str | None:
    try:
        actual = attempt(lambda: ANSWERS[name](case))
    except Exception as error:  # noqa: BLE001  # an untyped error fails its case, not the run
        return f"{name}: {type(error).__name__}: {error}"
    return difference(without_fixed_texts(expected), without_fixed_texts(actual), name)


def compare(cases: Iterable[Case]) -> Report:
    """Return the report on the cases."""
    report = Report()
    for case in cases:
        report.take(case)
    return report


def main(arguments: list[str]) -> int:
    """Run one file and return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: make vectors FILE=path.jsonl.xz\n")
        return 2
    path = Path(arguments[0])
    if not path.is_file():
        sys.stderr.write(f"no such file: {path}\n")
        return 2
    cases = list(read_cases(path))
    progress = Console(stderr=True)
    shown = track(cases, f"{len(cases)} cases", console=progress, disable=not progress.is_terminal)
    report = compare(shown)
    report.print()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
