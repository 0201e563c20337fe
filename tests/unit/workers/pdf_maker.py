"""Writes small PDFs by hand, so that tests can say exactly what a page is made of."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image


@dataclass(frozen=True, slots=True)
class PagePlan:
    """One page: an optional picture drawn through `matrix`, further content, and keys of the page object."""

    picture: Image.Image | None = None
    matrix: str = "612 0 0 792 0 0"
    before: str = ""
    after: str = ""
    media_box: str = "0 0 612 792"
    page_keys: str = ""
    picture_keys: str = ""
    soft_mask: bool = False
    states: str = ""


def make_pdf(pages: Sequence[PagePlan]) -> bytes:
    """A complete PDF with these pages; Helvetica is available as /F1."""
    writer = _Writer()
    font = writer.add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    page_numbers = []
    tree = writer.reserve()
    for plan in pages:
        resources = f"/Font << /F1 {font} 0 R >>"
        if plan.states:
            resources += f" /ExtGState << {plan.states} >>"
        content = plan.before
        if plan.picture is not None:
            picture = _picture(writer, plan)
            resources += f" /XObject << /Im0 {picture} 0 R >>"
            content += f"\nq {plan.matrix} cm /Im0 Do Q\n"
        stream = writer.add_stream("", (content + plan.after).encode())
        page_numbers.append(
            writer.add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox [{plan.media_box}] /Contents {stream} 0 R "
                f"/Resources << {resources} >> {plan.page_keys} >>".encode()
            )
        )
    kids = " ".join(f"{number} 0 R" for number in page_numbers)
    writer.put(tree, f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    root = writer.add(f"<< /Type /Catalog /Pages {tree} 0 R >>".encode())
    return writer.finish(root)


def text(words: str, x: float = 72, y: float = 700, size: float = 12) -> str:
    """Content that prints words."""
    return f"BT /F1 {size} Tf {x} {y} Td ({words}) Tj ET\n"


def _picture(writer: "_Writer", plan: PagePlan) -> int:
    assert plan.picture is not None
    keys = plan.picture_keys
    if plan.soft_mask:
        mask = Image.linear_gradient("L").resize(plan.picture.size)
        keys += f" /SMask {_samples(writer, mask, '')} 0 R"
    return _samples(writer, plan.picture, keys)


def _samples(writer: "_Writer", picture: Image.Image, keys: str) -> int:
    space = {"L": "/DeviceGray", "RGB": "/DeviceRGB", "CMYK": "/DeviceCMYK"}[picture.mode]
    return writer.add_stream(
        f"/Type /XObject /Subtype /Image /Width {picture.width} /Height {picture.height} "
        f"/ColorSpace {space} /BitsPerComponent 8 {keys}",
        picture.tobytes(),
    )


class _Writer:
    def __init__(self) -> None:
        self._objects: list[bytes] = []

    def reserve(self) -> int:
        self._objects.append(b"")
        return len(self._objects)

    def put(self, number: int, body: bytes) -> None:
        self._objects[number - 1] = body

    def add(self, body: bytes) -> int:
        number = self.reserve()
        self.put(number, body)
        return number

    def add_stream(self, keys: str, data: bytes) -> int:
        packed = zlib.compress(data)
        head = f"<< {keys} /Filter /FlateDecode /Length {len(packed)} >>\nstream\n".encode()
        return self.add(head + packed + b"\nendstream")

    def finish(self, root: int) -> bytes:
        out = bytearray(b"%PDF-1.7\n")
        offsets = []
        for number, body in enumerate(self._objects, 1):
            offsets.append(len(out))
            out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
        start = len(out)
        out += f"xref\n0 {len(offsets) + 1}\n0000000000 65535 f \n".encode()
        for offset in offsets:
            out += f"{offset:010d} 00000 n \n".encode()
        size = len(offsets) + 1
        out += f"trailer\n<< /Size {size} /Root {root} 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
        return bytes(out)
