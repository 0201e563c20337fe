"""The results of `fastocr eval fixation` as Markdown: of one study, or of two side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastocr_core.evaluation.fixation_rows import FixationRow, row_from
from fastocr_core.evaluation.reader import percent
from fastocr_core.evaluation.retention import interval_words
from fastocr_core.evaluation.tables import markdown_table

TITLES = {
    "dense": "Dense and fastocr",
    "choice": "Choice of focal layers and warm-up, at the usual kept share",
    "nominal": "Baselines at the same nominal kept share",
    "bytes": "Baselines at the kept share that reads as many bytes as fastocr",
}
LAYERS_TITLE = "Where dense steps look by themselves"
_HEAD = (
    "policy", "kept share", "pages", "image KV read", "KV held", "CER", "accuracy of dense (95 %)", "same token",
    "attention recovered", "strongest seen", "fixation hits", "loops", "endless",
)  # fmt: skip
_LAYERS_HEAD = ("layer", "attention on its strongest 5 %", "true cell among them")
_NOTES = (
    "Accuracy is 1 - CER, 0 at least, as a share of the dense one on the same pages; the interval is a paired bootstrap over "
    "pages. A page is stopped as endless at twice the longest dense text, by when its accuracy is 0; its CER is "
    "then the least it can have been. Same token: the choice after the same prefix equals the dense one. "
    "Attention recovered: dense image attention on what was seen, mean over all layers. Strongest seen: of a layer's "
    "strongest tokens, as many as were seen, how many were among them. Fixation hits: the true cell of the next "
    "character was seen. The last two are over the layers that leave something out; these four are taken past the "
    "warm-up, with the pen held along the dense text."
)
_LAYERS_NOTE = (
    "Nothing is left out here: the share of a dense layer's image attention that lies on the twentieth of the image tokens it "
    "looks at most, mean over heads, and how often the true cell of the next character is one of these."
)


def markdown(rows: Sequence[FixationRow], model: str, pages: int) -> str:
    """One table per group, and what the columns mean."""
    parts = [f"## Fixation of {model} on {pages} pages"]
    for group, title in TITLES.items():
        members = [row for row in rows if row.group == group or (group, row.group) == ("dense", "fastocr")]
        if members:
            parts += [f"### {title}", markdown_table(_HEAD, [_cells(row) for row in members])]
    parts.append(_NOTES)
    layers = next((row.layers for row in rows if row.group == "dense"), ())
    if layers:
        cells = [(str(layer), percent(mass), percent(hits)) for layer, (mass, hits) in enumerate(layers)]
        parts += [f"### {LAYERS_TITLE}", markdown_table(_LAYERS_HEAD, cells), _LAYERS_NOTE]
    return "\n\n".join(parts) + "\n"


def _cells(row: FixationRow) -> tuple[str, ...]:
    if row.read_share is None:
        share = _share_words(row.share) if row.share else "-"
        return (row.label, share, row.note, *("-",) * (len(_HEAD) - 3))
    return (
        row.label + (f" ({row.note})" if row.note else ""),
        _share_words(row.kept_share, 1),
        str(row.pages),
        percent(row.read_share),
        percent(row.resident_share),
        percent(row.mean_cer),
        interval_words(row.retention),
        percent(row.agreement),
        percent(row.mass),
        percent(row.strongest_rate),
        percent(row.hit_rate),
        percent(row.loop_rate, 0),
        percent(row.endless_rate, 0),
    )


def _share_words(share: float, digits: int = 0) -> str:
    """In per cent; shares that would look alike or like nothing to so many digits are told to two digits that count."""
    per_cent = f"{100 * share:.{digits}f}"
    return (
        f"{per_cent}%" if abs(float(per_cent) - 100 * share) < 0.02 * share * 100 else f"{100 * share:.2g}%"
    )


_COMPARED = ("CER", "accuracy of dense (95 %)", "same token", "attention recovered", "fixation hits", "loops")


def beside(studies: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Results of several weights as `fixation.facts` gives them: the rows all of them have, and where their layers look.

    ValueError where one is no such study, or where there are not as many names as studies, or one of them twice.
    """
    if len(names) != len(studies):
        raise ValueError(f"{len(studies)} studies need as many names, not {len(names)}")
    if not studies or len(set(names)) < len(names):
        raise ValueError("studies beside each other need names that tell them apart")
    tables = [_rows_of(study, name) for study, name in zip(studies, names, strict=True)]
    shared = [key for key in tables[0] if all(key in table for table in tables)]
    rows = [
        (
            f"{label} {_share_words(share)}" if group == "fastocr" else label,
            name,
            *_compared(table[group, label, share]),
        )
        for group, label, share in shared
        for name, table in zip(names, tables, strict=True)
    ]
    about = "; ".join(
        f"{name}: {study['model']} {study['revision']}, {len(study['pages'])} pages"
        for name, study in zip(names, studies, strict=True)
    )
    parts = [
        f"## Fixation of {' and '.join(names)}",
        about,
        markdown_table(("policy", "weights", *_COMPARED), rows),
    ]
    layers = [next((row.layers for row in table.values() if row.group == "dense"), ()) for table in tables]
    if all(layers) and len({len(each) for each in layers}) == 1:
        head = ["layer", *(f"{what}, {name}" for what in _LAYERS_HEAD[1:] for name in names)]
        cells = [
            (str(layer), *(percent(each[layer][which]) for which in (0, 1) for each in layers))
            for layer in range(len(layers[0]))
        ]
        parts += [f"### {LAYERS_TITLE}", markdown_table(head, cells), _LAYERS_NOTE]
    return "\n\n".join(parts) + "\n"


def _rows_of(study: Any, name: str) -> dict[tuple[str, str, float], FixationRow]:
    """Dense, fastocr and its choices by group, label and share. ValueError where this is no study of fixation."""
    if not isinstance(study, Mapping) or study.get("evaluation") != "fixation":
        raise ValueError(f"{name}: this is no result of `fastocr eval fixation`")
    for key, kind in (("model", str), ("revision", str), ("pages", list), ("rows", list)):
        if not isinstance(study.get(key), kind):
            raise ValueError(f"{name}: this result of `fastocr eval fixation` has no {key}")
    try:
        rows = [row_from(each) for each in study["rows"]]
    except ValueError as failure:
        raise ValueError(f"{name}: {failure}") from failure
    return {
        (row.group, row.label, row.share): row for row in rows if row.group in ("dense", "fastocr", "choice")
    }


def _compared(row: FixationRow) -> tuple[str, ...]:
    return (
        percent(row.mean_cer),
        interval_words(row.retention),
        percent(row.agreement),
        percent(row.mass),
        percent(row.hit_rate),
        percent(row.loop_rate, 0),
    )
