"""The shipped reference cases, all of them, and what the runner does when something differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vectors.agreement import Refused, difference
from tests.vectors.cases import Case, read_cases
from tests.vectors.run import ANSWERS, Report, compare, main

FILE = Path(__file__).parents[1] / "data" / "vectors" / "reference-1.jsonl.xz"


def test_every_case_agrees_on_every_field() -> None:
    report = compare(read_cases(FILE))
    assert report.differences == []
    assert report.left_out == {}
    assert (report.passed, report.failed) == (1000, 0)
    assert set(report.compared) == set(ANSWERS)


def test_a_difference_and_a_field_without_answer_fail_the_case() -> None:
    report = Report()
    question = {"id": "one", "events": []}
    report.take(Case(question, {"id": "one", "closers": [{"type": "turn/end"}]}))
    report.take(Case(question, {"id": "two", "something": 1}))
    report.take(Case(question, {"id": "three", "closers": []}))
    assert (report.passed, report.failed) == (1, 2)
    assert report.left_out == {"something": 1}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, True),
        ({"error": "refused"}, {"ok": True}),
        ({"ok": True}, Refused("malformed")),
        ({"error": "at seq 3", "atSeq": 3}, Refused("malformed", seq=4)),
        ({"error": "bad", "name": "SessionFormatUnsupportedError"}, Refused("corrupt")),
        ([1, 2], [1]),
        (None, 0),
        (float(2**53), 2**53 + 2),
        (1, "1"),
    ],
)
def test_disagreements_are_seen(expected: object, actual: object) -> None:
    assert difference(expected, actual) is not None


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, float("inf")),
        (2**53, 2**53 + 1),
        (1.2345678901234568e29, 123456789012345678901234567890),
    ],
)
def test_numbers_are_compared_as_javascript_has_them(expected: object, actual: object) -> None:
    assert difference(expected, actual) is None


def test_a_file_may_be_plain_and_have_blank_lines(tmp_path: Path) -> None:
    one = '{"case": {"id": "one", "events": []}, "answer": {"id": "one", "closers": []}}'
    (tmp_path / "cases.jsonl").write_text(f"\n{one}\n\n{one}")
    assert main([str(tmp_path / "cases.jsonl")]) == 0
    assert len(list(read_cases(tmp_path / "cases.jsonl"))) == 2


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    assert main([str(tmp_path / "none.xz")]) == 2
