"""Text as UTF-16 has it: the reference counts code units, and splits streams between them."""

from __future__ import annotations


def utf16_length(text: str) -> int:
    """Return the number of UTF-16 code units; a lone surrogate is one."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def join_pairs(text: str) -> str:
    """Return the text with surrogate halves that met by concatenation made one character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
