"""Markdown tables whose cells come from files and models and so may hold anything."""

from collections.abc import Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text is left, everything after the first column right. ValueError for a row of another width."""
    lines = [_line(head), "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(head)} columns")
        lines.append(_line(row))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
