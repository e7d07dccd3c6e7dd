"""What can go wrong with the local stack, in words that say what to do."""

from __future__ import annotations

from surfacelog.schemas.errors import SurfacelogError


class StackError(SurfacelogError):
    """The local stack cannot be started, found or stopped."""

    code = "stack"


class MissingToolError(StackError):
    """A program that the stack needs is not installed."""

    code = "missing_tool"


class DownloadError(StackError):
    """Kafka or the registry could not be downloaded."""

    code = "download"


class DiskFullError(StackError):
    """There is too little room on the disk."""

    code = "disk_full"


class PortTakenError(StackError):
    """A port of the stack is used by another program."""

    code = "port_taken"


class StartError(StackError):
    """A service ended, or was not ready in time, while it was starting."""

    code = "start"
