"""Kafka and the schema registry, downloaded once for all checkouts of this user.

What is fetched is pinned in deploy/local/pom.xml; the cache has one directory for each content
of that file. It is filled beside its place and renamed, so it is there as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from surfacelog.processors.stack.errors import DiskFullError, DownloadError
from surfacelog.processors.stack.exclusive import exclusive
from surfacelog.processors.stack.run_file import RunFile
from surfacelog.processors.stack.tools import check_room, find_maven

if TYPE_CHECKING:
    from surfacelog.processors.stack.guard import Guard
    from surfacelog.processors.stack.progress import Progress

NEEDED_MB: Final = 500
"""170 MB in the cache, as much in Maven's own, and what Maven's plugins take."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the downloaded programs are."""

    directory: Path

    @property
    def kafka_class_path(self) -> str:
        """Every jar of the broker."""
        return str(self.directory / "kafka" / "*")

    @property
    def registry_jar(self) -> str:
        """The registry's start jar, which finds the others itself."""
        return str(next((self.directory / "registry").glob("*-runner.jar")))


def cache_directory() -> Path:
    """Return the user's cache directory of surfacelog."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "surfacelog"


def fetch(pom: Path, guard: Guard, progress: Progress) -> Programs:
    """Return the programs that `pom` pins, downloading them when this user never did."""
    cache = cache_directory()
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()
    home = cache / f"stack-{digest[:12]}"
    if home.is_dir():
        return Programs(home)
    maven = find_maven()
    with exclusive(cache / "lock"):
        if not home.is_dir():
            with progress.step("Downloading Kafka and the schema registry (160 MB, once)"):
                _download(maven, pom, home, guard)
    return Programs(home)


def _download(maven: str, pom: Path, home: Path, guard: Guard) -> None:
    check_room(home.parent, NEEDED_MB)
    draft = home.with_name(f"{home.name}.part")
    shutil.rmtree(draft, ignore_errors=True)  # of a download that was killed
    draft.mkdir()
    log = draft / "maven.log"
    # -C: a file whose checksum is wrong is an error, not a warning.
    command = [maven, "--quiet", "--batch-mode", "-C", "-f", str(pom), "package"]
    with log.open("wb") as output:
        run_file = RunFile(draft / "maven.pid")
        process = guard.start([*command, f"-Dtarget={draft}"], run_file, output, {})
    if process.wait() != 0:
        raise _explained(log.read_text(errors="replace"))
    draft.rename(home)


def _explained(log: str) -> DownloadError | DiskFullError:
    said = next((line for line in log.splitlines() if "[ERROR]" in line), log[-500:])
    if "No space left on device" in log:
        return DiskFullError(f"The disk is full. Maven said: {said}")
    return DownloadError(
        "Kafka and the schema registry could not be downloaded: is there a network, and does "
        f"Maven know its proxy or mirror (~/.m2/settings.xml)? Maven said: {said}"
    )
