"""The sequencer: the only place where the order of a session's log is decided."""

from surfacelog.processors.sequencer.run import run_sequencer

__all__ = ["run_sequencer"]
