"""A session log as a JSONL file: a header line, then an event or a packed row a line.

Reading tells two kinds of damage apart (SEMANTICS 9). A last line without its newline is a torn
tail: the process died while it wrote, nothing after it was ever there. A bad line before a later
complete turn/end is corruption: what it held was acknowledged once.
"""

from __future__ import annotations

from dataclasses import dataclass
from json import JSONDecodeError
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.chunk_rows import pack_rows, unpack_row
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_lenient import lenient_loads
from surfacelog.schemas.json_text import dumps, text_or_json
from surfacelog.schemas.json_value import is_count, member
from surfacelog.schemas.session_header import MEMBERS, check_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.schemas.json_value import JsonObject, JsonValue

# What a file begins with that is no JSONL as it stands, and what to do about it.
_NOT_PLAIN: Final = {
    b"\xef\xbb\xbf": "begins with a byte order mark: write it as UTF-8 without one",
    b"\xff\xfe": "is UTF-16: write it as UTF-8",
    b"\xfe\xff": "is UTF-16: write it as UTF-8",
    b"\x1f\x8b": "is compressed with gzip: unpack it first",
    b"\xfd7zXZ\x00": "is compressed with xz: unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd: unpack it first",
}
_RETIRED: Final = {"sandboxMode", "approvalPolicy"}


@dataclass(frozen=True, slots=True)
class StoredLog:
    """What a file holds: the session header, the events unpacked, and how far it is sound.

    `committed_bytes` is the length of the sound part; `dropped_bytes` what follows it and was
    left out: a torn line, or a bad one (`damage` says which and why) and all that follows it.
    """

    header: JsonObject
    events: list[JsonObject]
    committed_bytes: int
    dropped_bytes: int
    damage: str | None = None

    @property
    def left_out(self) -> str | None:
        """What was left out, in words; None when nothing was."""
        if not self.dropped_bytes:
            return None
        why = "" if self.damage is None else f", because {self.damage}"
        return f"torn tail: the last {self.dropped_bytes} bytes were dropped{why}"


def read_log(content: bytes, *, default_depth: bool = False) -> StoredLog:
    """Read a whole file.

    `default_depth` accepts a header without delegationDepth, as recorders left it out; it is 0
    then. Raises UnsupportedLogError for another format version, CorruptLogError for damage.
    """
    for mark, how in _NOT_PLAIN.items():
        if content.startswith(mark):
            raise CorruptLogError(f"the file {how}")
    end = content.find(b"\n")
    if end < 0:
        raise CorruptLogError("the file has no complete header line")
    header = parse_header(content[:end], default_depth=default_depth)
    events: list[JsonObject] = []
    sound, damage = end + 1, None
    for number, (line, line_end) in enumerate(_lines(content, end + 1), start=2):
        records, problem = _parse_line(line, len(events), number, damage)
        if damage is None and problem is None:
            events.extend(records)
            sound = line_end
            continue
        damage = damage or problem
        if any(record.get("type") == "turn/end" for record in records):
            raise damage  # type: ignore[misc]  # one of the two is set
    why = None if damage is None else damage.message
    return StoredLog(header, events, sound, len(content) - sound, why)


def parse_header(line: bytes, *, default_depth: bool = False) -> JsonObject:
    """Return the session header of a file's first line, without the line's own `type`.

    Members that the format does not know are left out. Raises as `read_log`.
    """
    try:
        parsed = lenient_loads(line.decode("utf-8", "replace"))
    except ValueError:
        raise CorruptLogError("the header line is not JSON") from None
    check_version(parsed)
    if default_depth and isinstance(parsed, dict):
        parsed.setdefault("delegationDepth", 0)
    if not isinstance(parsed, dict) or not _is_header(parsed):
        raise CorruptLogError("the first line is not a session header")
    if parsed.keys() & _RETIRED:
        raise CorruptLogError("the session header uses retired policy fields")
    return {name: parsed[name] for name in MEMBERS if name in parsed}


def header_line(header: JsonObject) -> str:
    """Return the first line of a file, newline included."""
    line: JsonObject = {"type": "session"}
    line |= {name: header[name] for name in MEMBERS if name in header}
    line.setdefault("delegationDepth", 0)
    return dumps(line) + "\n"


def event_lines(events: Iterable[JsonObject], *, packed: bool) -> Iterator[str]:
    """Yield the lines of the events, newline included; `packed` makes rows of chunk runs."""
    for record in pack_rows(events) if packed else events:
        yield dumps(record) + "\n"


def _is_header(line: JsonObject) -> bool:
    version = line.get("version")
    return (
        line.get("type") == "session"
        and isinstance(version, int | float)
        and not isinstance(version, bool)
        and isinstance(line.get("id"), str)
        and _is_plain_count(line.get("createdAt"))
        and _is_plain_count(line.get("delegationDepth"))
        and line.get("origin", "subagent") == "subagent"
        and isinstance(line.get("agentPreset", ""), str)
    )


def _is_plain_count(value: JsonValue) -> bool:
    return is_count(value) and not str(value).startswith("-")


def _lines(content: bytes, start: int) -> Iterator[tuple[bytes, int]]:
    """Yield every complete line with the offset behind its newline."""
    while (end := content.find(b"\n", start)) >= 0:
        yield content[start:end], end + 1
        start = end + 1


def _told(error: Exception) -> str:
    """Return the message of an error without the line number that a JSON parser gives each line."""
    return (
        f"{error.msg} at column {error.colno}" if isinstance(error, JSONDecodeError) else str(error)
    )


def _parse_line(
    line: bytes, next_seq: int, number: int, damage: CorruptLogError | None
) -> tuple[list[JsonObject], CorruptLogError | None]:
    """Return a line's events and what is wrong with it; seqs do not matter behind damage."""
    try:
        records = unpack_row(lenient_loads(line.decode("utf-8", "replace")))
    except (ValueError, CorruptLogError) as error:
        return [], CorruptLogError(f"line {number} cannot be read: {_told(error)}")
    if records == [None]:
        raise CorruptLogError(f"line {number} is null")
    events = [record if isinstance(record, dict) else {} for record in records]
    if damage is None:
        for offset, event in enumerate(events):
            if isinstance(event.get("seq"), bool) or event.get("seq") != next_seq + offset:
                found = text_or_json(member(event, "seq"))[:40]
                return events, CorruptLogError(
                    f"line {number} has seq {found}, expected {next_seq + offset}"
                )
    return events, None
