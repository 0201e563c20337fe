"""The text layer of a PDF, page by page, as truth for evaluations: `python -m workers.text_layer FILE PAGE...`.

A program of its own, so that PyMuPDF stays out of the process that asks. Pages count from 1; prints a JSON list.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SECONDS = 120.0


def page_texts(document: Path, pages: Sequence[int]) -> list[str]:
    """The stored text of pages (from 1) in a child process. ValueError, in one sentence, where it cannot be had."""
    command = [sys.executable, "-m", "workers.text_layer", str(document), *map(str, pages)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except subprocess.SubprocessError as failure:
        said = (getattr(failure, "stderr", "") or str(failure)).strip().splitlines()
        raise ValueError(f"{document.name} gave no text: {said[-1] if said else failure}") from failure
    texts: list[str] = json.loads(done.stdout)
    return texts


def main(arguments: Sequence[str]) -> None:
    """Print the texts. IndexError for a page that is not there."""
    import pymupdf

    with pymupdf.open(arguments[0]) as document:
        texts = [document[int(page) - 1].get_text(sort=False) for page in arguments[1:]]
    print(json.dumps(texts))


if __name__ == "__main__":
    main(sys.argv[1:])
