"""Makes small archives of documents for tests: PDFs with a few lines per page, and broken files on request."""

from pathlib import Path

import pymupdf


def make_pdf(file: Path, pages: int, lines: int = 8) -> None:
    """A PDF whose pages carry their own number, so that each is different and none is blank."""
    file.parent.mkdir(parents=True, exist_ok=True)
    document = pymupdf.open()
    for page_index in range(pages):
        page = document.new_page(width=300, height=300)
        for line in range(lines):
            words = f"{file.stem} page {page_index} line {line} of plain text"
            page.insert_text((24, 36 + 28 * line), words, fontsize=12)
    document.save(file)
    document.close()


def make_archive(folder: Path, documents: int, pages: int) -> None:
    """`documents` readable files of `pages` pages each, one of them in a folder with an odd name."""
    for number in range(documents):
        place = folder / "odd name #1 +%41 ä" if number == 0 else folder
        make_pdf(place / f"book-{number}.pdf", pages)


def make_broken(folder: Path) -> None:
    """Files that must be quarantined: an empty one and one that is no document."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "empty.pdf").write_bytes(b"")
    (folder / "notes.pdf").write_bytes(b"<html>please sign in</html>")
