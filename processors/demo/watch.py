"""What a person watches: every session's log and Surface, live."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rich.live import Live
from rich.table import Table

from surfacelog.schemas.errors import NotFoundError

if TYPE_CHECKING:
    from typing import Self

    from rich.console import Console

    from surfacelog.processors.demo.agents import Agents
    from surfacelog.projections.reader import SurfaceReader

READ_SECONDS: Final = 5.0
ROWS: Final = 16


@dataclass(slots=True)
class Row:
    """One session: `events` as projected, `lag` = events sent by its agent that are not visible."""

    events: int = 0
    nodes: int = 0
    tokens: int = 0
    generation: int = 0
    lag: int | None = None


@dataclass(slots=True)
class Watch:
    """The live table; on anything but a terminal, plain lines at each milestone only.

    Use it as a context manager around the story.
    """

    console: Console
    reader: SurfaceReader
    agents: Agents
    rows: dict[str, Row] = field(default_factory=dict)
    _live: Live | None = None
    _said: dict[str, Row] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """Events of all sessions together, as projected."""
        return sum(row.events for row in self.rows.values())

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, kind: object, error: object, at: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a milestone, above the table if there is one."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    async def refresh(self) -> None:
        """Read every session that changed and draw the table anew."""
        for entry in await self.reader.sessions(limit=len(self.rows) + 100):
            row = self.rows.setdefault(entry.session_id, Row())
            if (row.events, row.generation) != (entry.events, entry.generation):
                row.nodes = await self._count_nodes(entry.session_id)
            row.events, row.generation = entry.events, entry.generation
            row.tokens = entry.tokens.surface
        for session, progress in self.agents.progress.items():
            row = self.rows.setdefault(session, Row())
            row.lag = max(0, progress.sent - row.events)
        if self._live is not None:
            self._live.update(self._table())

    async def say_rows(self) -> None:
        """Print the agents' rows that moved as lines, where there is no table to look at."""
        for session, row in self.rows.items():
            if self._live is not None or row.lag is None or self._said.get(session) == row:
                continue
            self._said[session] = replace(row)
            self.say(
                f"  {session}: {row.events} events, {row.nodes} nodes, {row.tokens} tokens,"
                f" generation {row.generation}, lag {row.lag}"
            )

    async def _count_nodes(self, session: str) -> int:
        try:
            return len((await self.reader.read(session, timeout=READ_SECONDS)).nodes)
        except NotFoundError:  # listed, and gone again: the next refresh tells
            return 0

    def _table(self) -> Table:
        table = Table(title="sessions", title_justify="left", expand=True)
        table.add_column("session", no_wrap=True, ratio=1)
        for name in ("events", "nodes", "tokens", "generation", "lag"):
            table.add_column(name, justify="right")
        # Agents first: what is imported does not move.
        ordered = sorted(self.rows.items(), key=lambda item: (item[1].lag is None, -item[1].events))
        for session, row in ordered[:ROWS]:
            lag = "" if row.lag is None else str(row.lag)
            table.add_row(
                session, *map(str, (row.events, row.nodes, row.tokens, row.generation)), lag
            )
        if len(ordered) > ROWS:
            events = sum(row.events for _, row in ordered[ROWS:])
            table.add_row(f"... and {len(ordered) - ROWS} more", str(events), "", "", "", "")
        return table
