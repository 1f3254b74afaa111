"""Mistakes that are refused, and texts that are safe to print."""

import re

import pytest

HOSTILE = "\x1b[31mred\x07\u202eexe\x9b"  # what a terminal would obey, as a name
SHOWN = r"\x1b[31mred\x07\u202eexe\x9b"


def refused(call, kind, *parts):
    """The call raises an error of this kind, whose message has these parts."""
    with pytest.raises(kind) as error:
        call()
    for part in parts:
        assert part in str(error.value), str(error.value)


def safe(text):
    """Is it lines of printable characters: is everything that a terminal obeys escaped?"""
    return not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", text)
