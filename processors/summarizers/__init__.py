"""Summarizers: what a compaction writes in place of the span that it shadows."""
