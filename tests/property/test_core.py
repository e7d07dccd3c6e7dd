"""Properties of the pure core over generated sessions, streams and results."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.logs import Log, call_block, replace, text_block

from surfacelog.producers.recorded_log import plan_appends, read_recording
from surfacelog.projections.admission import Admitted, admit
from surfacelog.projections.admission_open import repairs
from surfacelog.projections.assembly import BlockAssembler
from surfacelog.projections.closers import crash_closers
from surfacelog.projections.compaction_range import compactable_range
from surfacelog.projections.fold import LogFold, fold_log
from surfacelog.projections.messages import derived_message
from surfacelog.projections.meter import Meter
from surfacelog.projections.pairing import balanced_cuts, is_balanced, pairing_delta
from surfacelog.projections.pruner import MARKER, PrunePolicy, prune_blocks, text_length
from surfacelog.projections.session_state import SessionState
from surfacelog.projections.surface import SurfaceFold
from surfacelog.projections.token_views import ContextBreakdown
from surfacelog.projections.tokens import message_price
from surfacelog.projections.transcript import transcript
from surfacelog.schemas.chunk_rows import pack_rows, unpack_row
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.jsonl import event_lines, header_line, read_log

if TYPE_CHECKING:
    from surfacelog.schemas.event_types import Role

# Sessions are large examples: a few of them, without a limit on time, find as much.
few = settings(max_examples=25, deadline=None)

HEADER: Any = {"version": 0, "id": "s", "createdAt": 1, "delegationDepth": 0}
TEXTS = st.text(max_size=30)
USAGES = st.none() | st.fixed_dictionaries(
    {"inputTokens": st.integers(0, 500), "outputTokens": st.integers(0, 50)}
)


@st.composite
def streams(draw: st.DrawFn) -> list[Any]:
    """Draw the chunks of one response."""
    chunks: list[Any] = []
    for index in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["text-delta", "reasoning-delta", "tool-call-delta"]))
        for text in draw(st.lists(TEXTS, min_size=1, max_size=6)):
            chunk = {"type": kind, "index": index}
            if kind == "tool-call-delta":
                chunk |= {"id": f"c{index}", "argumentsDelta": text}
                chunk |= {"name": "bash"} if draw(st.booleans()) else {}
            else:
                chunk["text"] = text
            chunks.append(chunk)
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["stop", "max-tokens"]))
        chunks.append({"type": "finish", "reason": {"kind": kind}})
    return chunks


@st.composite
def sessions(draw: st.DrawFn) -> list[Any]:
    """Draw a live session: turns with streams, calls and results, compactions between them."""
    log = Log()
    for turn in range(1, draw(st.integers(1, 4)) + 1):
        log.add("turn/start", {"turn": turn})
        for step in range(1, draw(st.integers(1, 3)) + 1):
            _step(draw, log, turn, step)
        log.add("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
        if draw(st.booleans()):
            _compact(draw, log)
    cut = draw(st.integers(0, len(log.events)) | st.just(len(log.events)))
    return log.events[:cut]


def _step(draw: st.DrawFn, log: Log, turn: int, step: int) -> None:
    log.add("step/start", {"turn": turn, "step": step})
    for text in draw(st.lists(TEXTS, max_size=2)):
        log.user(text)
    if draw(st.booleans()):
        log.header(system=draw(TEXTS))
    place = {"turn": turn, "step": step}
    cited = [log.chunk(chunk, **place) for chunk in draw(streams())]
    calls = [f"c{len(log.events)}-{n}" for n in range(draw(st.integers(0, 2)))]
    blocks = [text_block(draw(TEXTS)), *map(call_block, calls)]
    log.assistant(*blocks, usage=draw(USAGES), sourceEventSeqs=cited, **place)
    for call in calls:
        log.call(call, **place)
        log.result(call, draw(TEXTS), **place)
    log.add("step/end", place)


def _compact(draw: st.DrawFn, log: Log) -> None:
    state = fold_log(log.events)
    span = state.compactable_range(draw(st.integers(0, 60)))
    if span is None:
        return
    first, last = state.nodes.index(span.start), state.nodes.index(span.end)
    shadowed = list(state.nodes[first : last + 1])
    price = sum(state.prices[first : last + 1])
    span_data = {"start": span.start, "end": span.end}
    log.add("compaction/prune", {"shadowedRange": span_data, "shadowedTokenCount": price})
    log.user(draw(TEXTS), **replace(span.start, span.end, shadowed))


@few
@given(sessions())
def test_a_replacement_changes_its_span_and_nothing_else(events: list[Any]) -> None:
    fold = SurfaceFold()
    for event in events:
        before = list(fold.nodes)
        done = fold.apply(event)
        if done is not None:
            at = before.index(done.start)
            assert before[at : at + len(done.shadowed)] == list(done.shadowed)
            rest = before[at + len(done.shadowed) :]
            assert fold.nodes == [*before[:at], event["seq"], *rest]


@few
@given(sessions())
def test_prices_add_up_however_they_are_counted(events: list[Any]) -> None:
    state = fold_log(events)
    anew = [message_price(derived_message(events[seq])) for seq in state.nodes]
    breakdown = ContextBreakdown()
    for event in events:
        breakdown.apply(event)
    assert list(state.prices) == anew
    assert state.surface_tokens == sum(anew) == breakdown.messages.tokens


@few
@given(sessions(), st.data())
def test_a_meter_that_was_put_away_goes_on_as_if_it_had_not(
    events: list[Any], data: st.DataObject
) -> None:
    fold, meter = LogFold(), Meter()
    surface: dict[int, int] = {}
    nodes = SurfaceFold()
    for event in events:
        fold.apply(event)
        done = nodes.apply(event)
        shadowed = () if done is None else done.shadowed
        meter.apply(event, sum(surface.pop(seq) for seq in shadowed))
        if "surfaceOp" in event:
            surface[event["seq"]] = message_price(derived_message(event))
        if data.draw(st.booleans()):
            meter = Meter.from_json(meter.to_json())
    assert fold.result().measurement == meter.measure()


@few
@given(sessions(), st.integers(0, 400))
def test_a_range_is_balanced_and_leaves_the_tail_it_was_asked_for(
    events: list[Any], retain: int
) -> None:
    state = fold_log(events)
    span = state.compactable_range(retain)
    if span is None:
        return
    last = state.nodes.index(span.end)
    assert span.start == state.nodes[0]
    assert is_balanced(state.deltas, 0, last)
    assert last < len(state.nodes) - 1
    assert sum(state.prices[last + 1 :]) >= retain


@few
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 2))), st.integers(0, 40))
def test_a_range_never_ends_at_an_open_call(nodes: list[Any], retain: int) -> None:
    deltas: list[int] = []
    for _, delta in nodes:
        deltas.append(delta if sum(deltas) + delta >= 0 else 0)
    seqs = list(range(len(nodes)))
    span = compactable_range(seqs, [price for price, _ in nodes], deltas, retain)
    assert span is None or balanced_cuts(deltas)[span.end + 1]


@few
@given(sessions())
def test_a_compaction_leaves_the_transcript_as_it_was(events: list[Any]) -> None:
    seen: list[Any] = transcript(events)
    assert [event["seq"] for event in seen] == sorted(event["seq"] for event in seen)
    for cut in range(0, len(events), 7):
        assert transcript(events[:cut]) == [e for e in seen if e["seq"] < cut]


@few
@given(sessions())
def test_a_cut_session_is_closed_once_and_for_all(events: list[Any]) -> None:
    closers = crash_closers(events)
    whole = [*events, *closers]
    assert crash_closers(whole) == []
    state = fold_log(whole)
    assert sum(state.deltas) == 0
    assert all(pairing_delta(event) == -1 for event in closers if "surfaceOp" in event)


@few
@given(streams())
def test_a_streams_price_is_that_of_its_blocks(chunks: list[Any]) -> None:
    assembler = BlockAssembler()
    log = Log()
    log.start()
    log.header(system="s")
    cited = []
    for chunk in chunks:
        assembler.push(chunk)
        cited.append(log.chunk(chunk))
    usage = {"inputTokens": 0, "outputTokens": 0}
    log.assistant(usage=usage, sourceEventSeqs=cited)
    measured = fold_log(log.events).measurement
    blocks = assembler.blocks()
    assert measured is not None
    price = message_price({"content": list(blocks)}) if blocks else 0
    assert measured.baseline == fold_log(log.events).header_tokens + price


@few
@given(st.lists(st.tuples(st.booleans(), st.text(max_size=200)), max_size=5), st.integers(0, 40))
def test_a_pruned_result_fits_and_keeps_both_ends(parts: list[Any], ends: int) -> None:
    policy = PrunePolicy(threshold=2 * ends + len(MARKER) + 3, head=ends, tail=ends)
    blocks: list[Any] = [
        text_block(text) if is_text else {"type": "image"} for is_text, text in parts
    ]
    pruned: Any = prune_blocks(blocks, policy)
    whole = "".join(block.get("text", "") for block in blocks)
    if pruned is None:
        assert text_length(blocks) <= policy.threshold
        return
    kept = "".join(str(block["text"]) for block in pruned if "text" in block)
    assert text_length(pruned) == 2 * ends + len(MARKER) <= policy.threshold
    assert kept == whole[:ends] + MARKER + whole[len(whole) - ends :]
    assert [b for b in pruned if "text" not in b] == [b for b in blocks if "text" not in b]


@few
@given(sessions())
def test_rows_are_the_events_they_pack(events: list[Any]) -> None:
    packed = list(pack_rows(events))
    assert [event for record in packed for event in unpack_row(record)] == events


@few
@given(sessions(), st.booleans())
def test_what_is_imported_is_exported_and_stands_as_the_folds_say(
    events: list[Any], packed: bool
) -> None:
    content = header_line(HEADER).encode() + "".join(event_lines(events, packed=packed)).encode()
    log = read_recording(content)
    state = SessionState.new("s")
    written: list[Any] = []
    for request in plan_appends(log):
        roles: frozenset[Role] = frozenset({"importer"})
        decision = admit(state if written else None, request, bytes(8), topic_role_set=roles, now=0)
        assert isinstance(decision, Admitted)
        state.apply(replace_fields(decision.batch, chain=bytes(16)))
        written += unpack_items(decision.batch.items, decision.batch.first_seq)
    assert written == events
    folded = fold_log(events)
    nodes = state.surface.nodes
    assert tuple((node.seq, node.price, node.delta) for node in nodes) == tuple(
        zip(folded.nodes, folded.prices, folded.deltas, strict=True)
    )
    closers = [{**event, "seq": seq} for seq, event in enumerate(repairs(state), len(events))]
    expected: list[Any] = crash_closers(events)
    assert closers[: len(expected)] == expected


@few
@given(sessions(), st.booleans(), st.data())
def test_a_file_torn_anywhere_gives_a_prefix(
    events: list[Any], packed: bool, data: st.DataObject
) -> None:
    header = header_line(HEADER).encode()
    content = header + "".join(event_lines(events, packed=packed)).encode()
    assert read_log(content).events == events
    cut = data.draw(st.integers(len(header), len(content)))
    torn = read_log(content[:cut])
    assert torn.events == events[: len(torn.events)]
    assert torn.committed_bytes + torn.dropped_bytes == cut
