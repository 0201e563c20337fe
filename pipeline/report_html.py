"""HTML from parts that are escaped unless they are HTML already, so that no text of a document can get between
the tags. What cannot be shown (control characters, tricks with writing direction) is made visible instead.
"""

import html
import re
import unicodedata
from collections.abc import Mapping

VOID_TAGS = frozenset({"meta"})
DRAWN_TAGS = frozenset({"rect", "line", "path"})  # of SVG: these must close themselves
LINE_BREAKS_AND_TABS = "\n\t"
MOST_ACCENTS = 4
_NOT_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_KEPT_FORMATS = "\u00ad\u200c\u200d"  # soft hyphen, and the joiners that Persian and Indian scripts need
_ACCENT = "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_ACCENT_PILE = re.compile(f"({_ACCENT}{{{MOST_ACCENTS}}}){_ACCENT}+")


class Html(str):
    """A piece of finished HTML; any other string is text and will be escaped."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """Text as HTML that shows exactly this text, whatever is in it."""
    return Html(html.escape(visible(text), quote=True))


def visible(text: str) -> str:
    """The text with every character that would not show, or would rearrange others, replaced by its code.

    Line breaks stay (all kinds become a newline), tabs too. Of piles of accents only the first few are kept.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    shown = "".join(character if _is_shown(character) else _named(character) for character in text)
    return _ACCENT_PILE.sub(r"\1", shown)


def element(tag: str, *children: "str | Html", **attributes: str | float | bool | None) -> Html:
    """One element. Attribute names are given with an underscore at the end where Python needs it (`class_`), or
    between words (`stroke_width`); values are escaped; None and False leave the attribute out.
    """
    opened = f"<{tag}{_attributes(attributes)}"
    if tag in DRAWN_TAGS:
        return Html(f"{opened}/>")
    if tag in VOID_TAGS:
        return Html(f"{opened}>")
    return Html(f"{opened}>{joined(*children)}</{tag}>")


def joined(*children: "str | Html") -> Html:
    """Pieces one after the other; text among them is escaped."""
    return Html("".join(child if isinstance(child, Html) else escaped(child) for child in children))


def table(
    headings: "tuple[str, ...]", rows: "list[tuple[str | Html, ...]]", *, numbers_from: int = 1
) -> Html:
    """A table that scrolls by itself; columns from `numbers_from` on hold numbers and stand to the right."""
    head = [
        element("th", title, class_=_side(place, numbers_from), scope="col")
        for place, title in enumerate(headings)
    ]
    body = [
        element(
            "tr", *(element("td", cell, class_=_side(place, numbers_from)) for place, cell in enumerate(row))
        )
        for row in rows
    ]
    grid = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element("div", grid, class_="scroll")


def _side(place: int, numbers_from: int) -> str | None:
    return "number" if place >= numbers_from else None


def _attributes(attributes: Mapping[str, str | float | bool | None]) -> str:
    written = ""
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        written += f" {name}" if value is True else f' {name}="{escaped(str(value))}"'
    return written


def _is_shown(character: str) -> bool:
    if character in LINE_BREAKS_AND_TABS or character in _KEPT_FORMATS:
        return True
    return unicodedata.category(character) not in _NOT_SHOWN


def _named(character: str) -> str:
    """Control characters have pictures of their own in Unicode; the rest is shown by its number."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"
