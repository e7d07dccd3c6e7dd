"""The projector on a Redis Cluster, one node of which loses what it had."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest
from tests.log_feed import LogFeed
from tests.private_cluster import PrivateCluster
from tests.processes import Spawner

from surfacelog.projections.reader import SurfaceReader
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PrivateCluster]:
    made = PrivateCluster(tmp_path / "cluster")
    made.start()
    yield made
    made.stop()


async def check_all(settings: Settings, feed: LogFeed, what: str) -> None:
    began = time.monotonic()
    async with await SurfaceReader.connect(settings) as reader:
        for session_id in feed.written:
            last = feed.next_seq(session_id) - 1
            feed.check(await reader.read(session_id, at_least=last, timeout=30))
    print(f"{what}: right after {time.monotonic() - began:.2f} s")


async def test_each_node_of_a_cluster_may_be_emptied(
    settings: Settings, cluster: PrivateCluster, tmp_path: Path
) -> None:
    settings = settings.model_copy(update={"redis": cluster.url})
    feed = LogFeed(settings, connect_codec(settings))
    spawner = Spawner(settings, tmp_path)
    try:
        projector = spawner("projector")
        feed.sessions([f"s{number}" for number in range(15)], random.Random(11))
        await check_all(settings, feed, "projected into a cluster")
        for number, node in enumerate(cluster.nodes):
            replays = sum("replaying" in line for line in projector.lines)
            node.flushall()
            projector.wait_line("replaying", count=replays + 1)
            await check_all(settings, feed, f"node {number} emptied at rest")
        assert projector.terminate() == 0, projector.output()
    finally:
        spawner.kill_all()
