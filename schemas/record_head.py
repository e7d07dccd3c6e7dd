"""The fields of a record before its `events`, which for most records is all of it: by fastavro.

Only what is written with the writer's own schema is read, never with a reader schema: that would
drop the members which it does not know (DESIGN 3).
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

if TYPE_CHECKING:
    from collections.abc import Iterator


class HeadFormat:
    """Reads and writes the heads of one schema.

    `attempt` stands apart from its neighbours: the digest of a request leaves its bytes out.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        known: dict[str, dict[str, Any]] = {}
        self._parts = [
            parse_schema({**schema, "name": f"{schema['name']}_{number}", "fields": fields}, known)
            for number, fields in enumerate(_parts(schema["fields"]))
        ]

    def read(self, payload: bytes, at: int) -> tuple[dict[str, Any], list[int]]:
        """Return the fields and where each part ends, before and after `attempt` and at the end.

        ValueError, EOFError or IndexError when the bytes are no head.
        """
        stream = BytesIO(payload)
        stream.seek(at)
        members: dict[str, Any] = {}
        ends = []
        for part in self._parts:
            members |= schemaless_reader(stream, part, None)  # type: ignore[arg-type]  # a record
            ends.append(stream.tell())
        return members, ends

    def write(self, members: dict[str, Any]) -> bytes:
        """Return the bytes; OverflowError, TypeError or ValueError for what does not fit."""
        stream = BytesIO()
        for part in self._parts:
            schemaless_writer(stream, part, members)
        return stream.getvalue()


def _parts(fields: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    for field in fields:
        if field["name"] == "events":
            break
        if field["name"] == "attempt" and "events" in {each["name"] for each in fields}:
            yield part
            yield [field]
            part = []
        else:
            part.append(field)
    yield part
