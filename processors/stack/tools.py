"""The programs and the room that the stack needs, checked before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from surfacelog.processors.stack.errors import DiskFullError, MissingToolError

JAVA_NEEDED: Final = 17
INSTALL: Final = (
    "Install a Java runtime of version 17 or later and Maven (Debian and Ubuntu: `apt-get install "
    "openjdk-17-jre-headless maven`; macOS: `brew install openjdk@17 maven`)"
)
COMPOSE: Final = (
    "; or, with the Docker engine of this machine, run `docker compose up --detach --wait` "
    "instead of the local stack"
)


def find_java() -> str:
    """Return a Java of JAVA_HOME or PATH that is new enough for Kafka 4."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        raise MissingToolError(f"No Java was found. {_how_to_install()}.")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < JAVA_NEEDED:
        first = told.splitlines()[0] if told else "nothing"
        raise MissingToolError(f"{java} is too old ({first}). {_how_to_install()}.")
    return java


def find_maven() -> str:
    """Return Maven, which downloads Kafka and the registry."""
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingToolError(
            f"No Maven (mvn) was found; it downloads Kafka and the registry. {_how_to_install()}."
        )
    return maven


def check_room(directory: Path, needed_mb: int) -> None:
    """Refuse to go on when the disk of `directory` has less than `needed_mb` MB left."""
    free_mb = shutil.disk_usage(directory).free // 1_000_000
    if free_mb < needed_mb:
        raise DiskFullError(
            f"The disk of {directory} has {free_mb} MB left, {needed_mb} MB are needed.",
            directory=str(directory),
        )


def _how_to_install() -> str:
    return INSTALL + COMPOSE if shutil.which("docker") else INSTALL
