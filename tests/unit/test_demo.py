"""What the demo's story rests on, without its services."""

from __future__ import annotations

from pathlib import Path

import pytest

from surfacelog.processors.demo import patience
from surfacelog.processors.demo.cast import PARTITIONS, REVIEWS
from surfacelog.processors.demo.patience import DemoError, until
from surfacelog.processors.demo.reviewer import PAGE, WINDOW, Reviewer
from surfacelog.projections.compaction_policy import CompactionPolicy, budget
from surfacelog.projections.dynamic_context import snapshot_message
from surfacelog.projections.pruner import PrunePolicy
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.topics import partition_of

CHECKOUT = Path(__file__).parents[2]


def test_each_of_two_compactors_gets_one_review() -> None:
    halves = {partition_of(session, PARTITIONS) < PARTITIONS // 2 for session in REVIEWS}
    assert halves == {False, True}


@pytest.mark.parametrize("folder", REVIEWS.values())
def test_what_a_reviewer_reads_passes_the_threshold_and_leaves_room(folder: Path) -> None:
    reviewer = Reviewer("s", CHECKOUT / folder, client=None, progress={})  # type: ignore[arg-type]  # it only reads here
    pages = [file.read_text()[:PAGE] for file in reviewer._files()]
    tokens = sum(message_price(snapshot_message("p", {"page": page})) for page in pages)
    assert budget(CompactionPolicy(), WINDOW).threshold < tokens < 0.9 * WINDOW
    assert PrunePolicy().threshold > PAGE, "a session that fits after pruning is not compacted"


async def test_a_wait_that_is_in_vain_says_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.01)
    with pytest.raises(DemoError, match="the sun rises"):
        await until("the sun rises", lambda: False)
