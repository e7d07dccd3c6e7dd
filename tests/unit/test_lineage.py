"""Where sessions come from, told by their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from surfacelog.projections.fork_boundary import fork_prefix
from surfacelog.projections.lineage import Ancestor, Lineage
from surfacelog.schemas.errors import CorruptLogError, NotFoundError
from surfacelog.schemas.session_header import child_header

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

ROOT: JsonObject = {"version": 0, "id": "root", "createdAt": 1, "cwd": "/w"}


def header(session_id: str, parent: str | None = None, **members: JsonValue) -> JsonObject:
    made: JsonObject = {"version": 0, "id": session_id, "createdAt": 1}
    if parent is not None:
        made["parentSession"] = parent
    return made | members


@pytest.fixture
def family() -> Lineage:
    """root, forked at 10 to a; a forked at 25 to b and at 4 to c; b delegates to s."""
    return Lineage(
        [
            header("s", "b", origin="subagent", delegationDepth=1),
            header("c", "a", seedLength=4),
            header("b", "a", seedLength=25),
            child_header(ROOT, "a", seed_length=10, created_at=2),
            ROOT,
        ]
    )


def test_ancestors_share_what_every_fork_on_the_way_kept(family: Lineage) -> None:
    assert family.ancestors("b") == (Ancestor("a", 25, False), Ancestor("root", 10, False))
    assert family.ancestors("c") == (Ancestor("a", 4, False), Ancestor("root", 4, False))
    assert family.ancestors("s")[0] == Ancestor("b", 0, True)
    assert family.ancestors("root") == ()


def test_children_are_forks_and_subagents(family: Lineage) -> None:
    assert family.children("a") == ("c", "b")
    assert family.children("b") == ("s",)
    assert family.children("c") == ()


@pytest.mark.parametrize(
    ("session_id", "seq", "origin"),
    [
        ("b", 3, "root"),
        ("b", 10, "a"),
        ("b", 24, "a"),
        ("b", 25, "b"),
        ("c", 4, "c"),
        ("s", 0, "s"),
    ],
)
def test_an_event_was_written_where_no_older_session_has_it(
    family: Lineage, session_id: str, seq: int, origin: str
) -> None:
    assert family.origin(session_id, seq) == origin


def test_a_parent_need_not_be_known() -> None:
    orphan = Lineage([header("x", "gone", seedLength=2)])
    assert orphan.ancestors("x") == (Ancestor("gone", 2, False),)
    assert orphan.origin("x", 1) == "gone"
    assert orphan.children("gone") == ("x",)


def test_headers_that_cannot_be_are_refused(family: Lineage) -> None:
    loop = Lineage([header("x", "y"), header("y", "x")])
    with pytest.raises(CorruptLogError):
        loop.ancestors("x")
    with pytest.raises(NotFoundError):
        family.ancestors("nobody")


def test_a_fork_s_header_says_where_its_own_events_begin() -> None:
    events: list[JsonObject] = [{"type": "user/message", "seq": seq} for seq in range(5)]
    prefix = fork_prefix(events, 2)
    child = child_header(ROOT, "child", seed_length=len(prefix), created_at=2)
    lineage = Lineage([ROOT, child])
    assert [lineage.origin("child", seq) for seq in (2, 3)] == ["root", "child"]
