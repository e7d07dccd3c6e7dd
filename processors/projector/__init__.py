"""The projector: reads the log with Faust and keeps the Surface of every session in Redis."""

from surfacelog.processors.projector.app import run_projector

__all__ = ["run_projector"]
