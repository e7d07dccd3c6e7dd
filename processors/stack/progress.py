"""What a person sees while the stack starts."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console


class Progress:
    """Prints each step, with a spinner while it lasts and its time when it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show that `text` goes on for as long as the context lasts."""
        started = time.monotonic()
        with self._console.status(text):
            yield
        self.say(f"{text}: {time.monotonic() - started:.1f} s")

    def say(self, text: str) -> None:
        """Print one line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
