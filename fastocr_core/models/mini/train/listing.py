"""Monospaced listings: indented lines that look like programs, commands or settings."""

from __future__ import annotations

from dataclasses import replace

from fastocr_core.models.mini.train.typesetting import LEAST_PITCH_PIXELS, Frame, Setter

# # stands for a name, 0 for a number; spaces part the words
_LINES = (
    "# = #(#, 0)", "if # == 0:", "for # in #(0):", "return #.#(#)", "#.#[0] = #", "while (# < 0) {", "}", "} else {",
    "int # = 0;", "#(#, #, 0);", "# += 0", 'print("#: " + #)', "# #", "def #(#, #):", "class #(#):", "import #.#",
    "<# #=\"0\">", "</#>", "$ # -# --# /#/#", "#: #", "#=0", "[#]", "{ \"#\": 0, \"#\": [0, 0] }", "/* # # # */",
    "// # #", "#include <#.h>", "const # = (#) => #;", "SELECT # FROM # WHERE # = 0;", "@#", "#[#] -> 0x0",
)  # fmt: skip


def _names(setter: Setter, count: int) -> list[str]:
    words = [word.lower() for word in setter.words(count) if word.isascii() and word.isalpha()]
    names = []
    for word in words or ["name"]:
        other = words[setter.count(0, len(words) - 1)] if words else "value"
        names.append(
            f"{word}_{other}" if setter.chance(0.2) else word + other.title() if setter.chance(0.1) else word
        )
    return names


def _code(setter: Setter, names: list[str]) -> list[str]:
    """The words of one line of program text."""
    text = setter.one_of(*_LINES)
    written = []
    for sign in text:
        if sign == "#" and not text.startswith("#include"):
            written.append(names[setter.count(0, len(names) - 1)])
        else:
            written.append(str(setter.count(0, 400)) if sign == "0" else sign)
    return "".join(written).split()


def listing(setter: Setter, frame: Frame) -> bool:
    """Program-like lines in a typewriter face, stepped by their depth, now and then with line numbers."""
    face = setter.family.typewriter
    pixels = round(setter.manner.pixels * setter.family.body.x_height / face.x_height * 4) / 4
    pitch = max(setter.manner.pitch, LEAST_PITCH_PIXELS)
    manner = replace(setter.manner, pixels=pixels, pitch=pitch, align="left", indent=0.0, hang=0.0)
    letter = face.advances["m"] * pixels
    step = setter.count(2, 4) * letter
    names = _names(setter, setter.count(6, 30))
    number = setter.count(1, 90) if setter.chance(0.2) else 0
    shift = setter.between(0, 3) * letter
    depth, done = 0, 0
    for _ in range(setter.count(2, 40)):
        if not setter.fits(frame, pixels):
            break
        baseline = setter.baseline(frame, pixels)
        x = frame.left + shift + depth * step + (4.0 * letter if number else 0.0)
        texts = [text for text in _code(setter, names) if face.covers(text)]
        words = setter.placed(texts, face, x, baseline, manner, frame.right)
        if number and words:
            words.insert(0, setter.place(str(number), face, frame.left + shift, baseline, manner))
            number += 1
        setter.row(words)
        done += bool(words)
        frame.y += pitch
        depth = min(max(depth + setter.count(-1, 1), 0), 5)
    return done > 0
