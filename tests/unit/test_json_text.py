from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from surfacelog.schemas.json_text import (
    JsonTextError,
    dumps,
    js_dumps,
    loads,
    replace_lone_surrogates,
)

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonValue

DEPTH = 20_000


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for level in range(depth):
        value = [value, "x"] if level % 2 else {"k": value, "": None}
    return value


@pytest.mark.parametrize(
    "text",
    ["1", "1.0", '{"b":1,"a":[true,false,null,""]}', "[]", "{}", '{"":{"":[]}}', '"\U0001f600"'],
)
def test_text_survives_a_round_trip(text: str) -> None:
    assert dumps(loads(text)) == text


def test_integers_and_floats_stay_apart() -> None:
    value = loads("[1,1.0,9223372036854775808,1e2]")
    assert isinstance(value, list)
    assert [type(item) for item in value] == [int, float, int, float]
    assert dumps(value) == "[1,1.0,9223372036854775808,100.0]"


@pytest.mark.parametrize("bad", ["-0", "-0.0", "-0e5", "-1e-400", "1e400", "NaN", "-Infinity"])
@pytest.mark.parametrize("shell", ["{}", "[{}]", '{{"a":{}}}'])
def test_what_is_not_lossless_is_refused_at_any_depth(bad: str, shell: str) -> None:
    text = shell.format(bad)
    with pytest.raises(JsonTextError):
        loads(text)
    with pytest.raises(JsonTextError):
        loads("[" * DEPTH + text + "]" * DEPTH)


@pytest.mark.parametrize(
    "bad", ["[", "{", "[1,]", '{"a"}', '{"a":1,}', "[1]]", "01", "'a'", "{1:2}", "nul", '"\n"']
)
def test_what_is_not_json_is_refused_at_any_depth(bad: str) -> None:
    with pytest.raises(JsonTextError):
        loads(bad)
    with pytest.raises(JsonTextError):
        loads("[" * DEPTH + bad + "]" * DEPTH)


def test_integers_beyond_a_double_are_refused() -> None:
    assert loads("1" + "0" * 308) == 10**308
    with pytest.raises(JsonTextError):
        loads("1" + "0" * 309)
    with pytest.raises(JsonTextError):
        loads("1" * 5_000)


def test_deep_values_neither_crash_nor_change() -> None:
    text = dumps(nested(DEPTH))
    assert dumps(loads(text)) == text
    assert js_dumps(loads(text)) == text
    assert dumps(loads("[" * DEPTH + "{}" + "]" * DEPTH)).count("[") == DEPTH


@pytest.mark.parametrize("print_text", [dumps, js_dumps])
def test_a_cycle_is_refused(print_text: object) -> None:
    cycle: list[JsonValue] = []
    cycle.append({"again": cycle})
    with pytest.raises(JsonTextError):
        print_text(cycle)  # type: ignore[operator]  # one of the two printers above


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_no_json_are_not_printed_but_null_in_javascript(value: float) -> None:
    with pytest.raises(JsonTextError):
        dumps([value])
    assert js_dumps([value, 10**400]) == "[null,null]"


def test_a_shared_value_is_no_cycle() -> None:
    shared: JsonValue = {"a": 1}
    assert js_dumps([shared, shared]) == '[{"a":1},{"a":1}]'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (12345678901234567890, "12345678901234567000"),
        (2**53 + 1, "9007199254740992"),
        (True, "true"),
        ("\ud800x", '"\\ud800x"'),
        ("\ud83d\ude00", '"\U0001f600"'),
        ("\u2028\x7f\x01\b", '"\u2028\x7f\\u0001\\b"'),
        ({"b": 1, "10": 2, "9": 3, "01": 4, "4294967295": 5}, None),
    ],
)
def test_javascript_spelling(value: JsonValue, text: str | None) -> None:
    assert js_dumps(value) == (text or '{"9":3,"10":2,"b":1,"01":4,"4294967295":5}')


def test_lone_surrogates_are_replaced_and_counted() -> None:
    value: JsonValue = {"\ud800": ["a\udfffb\ud83d\ude00"], "k": 1.0}
    assert replace_lone_surrogates(value) == ({"\ufffd": ["a\ufffdb\U0001f600"], "k": 1.0}, 2)
    clean: JsonValue = ["x"]
    assert replace_lone_surrogates(clean) == (clean, 0)


@pytest.mark.parametrize("keys", [("\ud800", "\udfff"), ("a\ud800", "a\ufffd")])
def test_keys_that_would_become_the_same_are_refused(keys: tuple[str, str]) -> None:
    with pytest.raises(JsonTextError, match="lone surrogates"):
        replace_lone_surrogates([{"x": dict.fromkeys(keys, 1)}])


def test_a_repeated_key_keeps_its_first_place_and_last_value() -> None:
    assert dumps(loads('{"a":1,"b":2,"a":3}')) == '{"a":3,"b":2}'
