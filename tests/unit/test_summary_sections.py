from __future__ import annotations

from surfacelog.projections.summary_sections import SECTIONS, missing_sections, parse, render


def test_all_sections_are_written_in_order_and_none_is_dropped() -> None:
    text = render({"Next step": ["run the tests"], "Files and code": ["read a.py", "edit a.py"]})

    headings = [line[3:] for line in text.split("\n") if line.startswith("## ")]
    assert headings == list(SECTIONS)
    assert text.count("(none)") == len(SECTIONS) - 2
    assert missing_sections(text) == ()


def test_items_come_back_as_they_were_written() -> None:
    items = ["one line", "two\nlines", "a gap\n\nin the middle", "## Next step\n- quoted", "- dash"]

    assert parse(render({"Critical context": items}))["Critical context"] == items


def test_a_models_prose_is_read_by_paragraph_under_any_style_of_heading() -> None:
    text = """Here is the summary.

1. **Primary Request and Intent**:
Fix the parser.
It must not recurse.

Then release.

### 2. Key technical concepts
(none)
**Files and code**
- src/a.py
  changed the loop
- src/b.py"""

    assert parse(text) == {
        "Primary request and intent": ["Fix the parser.\nIt must not recurse.", "Then release."],
        "Key technical concepts": [],
        "Files and code": ["src/a.py\nchanged the loop", "src/b.py"],
    }
    assert missing_sections(text) == SECTIONS[3:]
