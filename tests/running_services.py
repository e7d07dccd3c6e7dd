"""Real Kafka, schema registry and Redis for one run of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from testcontainers.compose import DockerCompose

from surfacelog.processors.stack.checkout import DEFINITION, require_checkout
from surfacelog.processors.stack.local_stack import LocalStack
from surfacelog.processors.stack.progress import Progress
from surfacelog.schemas.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def running_services(directory: Path) -> Iterator[Settings]:
    """Yield settings of services that end with this process.

    They are local processes, or containers where a Docker engine answers and there is no Java
    (or SURFACELOG_TEST_DOCKER=1 asks for them).
    """
    wanted = os.environ.get("SURFACELOG_TEST_DOCKER") == "1" or shutil.which("java") is None
    if wanted and _docker_answers():
        services = ["kafka", "registry", "redis"]
        with DockerCompose(require_checkout(), services=services, wait=True):
            yield Settings()  # the ports of docker-compose.yml are the defaults
        return
    stack = LocalStack(directory, require_checkout() / DEFINITION)
    with stack.running(Progress(Console(stderr=True))) as plan:
        yield Settings().model_copy(update=plan.settings)


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0
