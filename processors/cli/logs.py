"""Logs of long-running processes: to stderr, readable at a terminal, JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs() -> None:
    """Set up structlog, and let libraries that use `logging` say what went wrong."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *_renderers(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _renderers() -> list[structlog.typing.Processor]:
    if sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
