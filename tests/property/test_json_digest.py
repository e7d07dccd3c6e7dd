"""json_digest tells values apart exactly where same_json does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from surfacelog.schemas.json_digest import json_digest
from surfacelog.schemas.json_equal import same_json

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonValue

# Few different scalars, so that equal values are met often.
scalars = st.sampled_from([None, True, False, 0, 1, 0.0, 1.0, 1.5, 10**300, 1e300, "", "1", "n1;"])
values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["", "a", "s1:a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(values, values)
@example([1, [2]], [[1], 2])
@example({"a": 1, "": None}, {"": None, "a": 1.0})
def test_digests_agree_with_equality(left: JsonValue, right: JsonValue) -> None:
    assert (json_digest(left) == json_digest(right)) == same_json(left, right)


def test_a_very_deep_value_has_a_digest() -> None:
    deep: JsonValue = []
    for _ in range(100_000):
        deep = [deep]
    assert len(json_digest(deep, 16)) == 16
