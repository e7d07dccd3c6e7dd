"""The compactor: a process that puts a checkpoint in the place of a span of the Surface."""

from surfacelog.processors.compactor.run import run_compactor

__all__ = ["run_compactor"]
