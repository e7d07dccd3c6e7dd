"""The state of a process for those who operate it: `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Gauge, generate_latest

READY: Final = Gauge("surfacelog_ready", "1 while the process does its work, else 0.")


def serve_health(port: int) -> int:
    """Answer health questions on all interfaces from a thread; return the port.

    Port 0 takes a free one. OSError when the port is taken.
    """
    server = ThreadingHTTPServer(("", port), _Handler)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server.server_port


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(HTTPStatus.OK, generate_latest(), CONTENT_TYPE_LATEST)
        elif self.path == "/healthz":
            self._answer(HTTPStatus.OK, b"alive\n")
        elif self.path == "/readyz" and REGISTRY.get_sample_value("surfacelog_ready"):
            self._answer(HTTPStatus.OK, b"ready\n")
        elif self.path == "/readyz":
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"not ready\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"not found\n")

    def _answer(
        self, status: HTTPStatus, body: bytes, content_type: str = "text/plain; charset=utf-8"
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (as inherited)
        """Probes come every few seconds: they are not worth a log line."""
