"""One process at a time, by a lock file."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surfacelog.processors.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever holds it; the system frees it at death.

    StackError when the file cannot be made.
    """
    descriptor = _locked(path)
    while not _is_still(path, descriptor):  # its last holder removed it: lock the new one
        os.close(descriptor)
        descriptor = _locked(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StackError(
            f"{path.parent} cannot be written: {error.strerror}. Make it so, or use another."
        ) from error
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
