"""Makes any text fit for a terminal or a log: one line, in which nothing acts and nothing hides.

Names of documents and what was read in them may hold line breaks, which would forge lines of a log, and escape
sequences, which a terminal would obey.
"""

import unicodedata

UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def plain_line(text: str) -> str:
    """The text with every character that does not show replaced by its code, as Python would write it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _shows(character) else _code(character) for character in text)


def _shows(character: str) -> bool:
    return unicodedata.category(character) not in UNSEEN


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
