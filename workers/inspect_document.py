"""The survey of one document: format, pages, sizes, and the reason if it cannot be read.

Nothing is drawn. The opening happens in the rasterizer's child, so a hostile file ends as a reason.
"""

from dataclasses import dataclass

from workers.ids import content_hash
from workers.outcomes import Reason
from workers.raster_protocol import PageFacts
from workers.rasterize import DocumentFailure, Rasterizer, RasterLimits
from workers.sniff import sniff


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What is known of a document before any page is read; a `reason` means quarantine and no pages."""

    content_hash: str
    format: str | None
    page_count: int = 0
    repaired: bool = False
    warnings: tuple[str, ...] = ()
    reason: Reason | None = None
    pages: tuple[PageFacts, ...] = ()

    @property
    def page_sizes(self) -> tuple[tuple[float, float] | None, ...]:
        """Width and height of each page as shown, in points; None where a page cannot be loaded."""
        return tuple(
            (page.width_points, page.height_points)
            if page.width_points is not None and page.height_points is not None
            else None
            for page in self.pages
        )

    @property
    def page_labels(self) -> tuple[str | None, ...]:
        """Labels the document gives its pages."""
        return tuple(page.label for page in self.pages)

    @property
    def estimated_pixels(self) -> tuple[int, ...]:
        """Pixels of the image to expect of each page; 0 where a page cannot be loaded."""
        return tuple(page.estimated_width_pixels * page.estimated_height_pixels for page in self.pages)


def inspect(
    data: bytes, limits: RasterLimits, wanted_dpi: int, rasterizer: Rasterizer | None = None
) -> DocumentFacts:
    """Find out what a document is. Never raises for anything the bytes can cause.

    Pass a `rasterizer` to share its child over many documents; otherwise one is started and ended here.
    """
    digest = content_hash(data)
    document_format = sniff(data)
    if isinstance(document_format, Reason):
        return DocumentFacts(digest, None, reason=document_format)
    if rasterizer is None:
        with Rasterizer(limits) as own:
            return inspect(data, limits, wanted_dpi, own)
    try:
        opened = rasterizer.open(data, document_format)
    except DocumentFailure as failure:
        return DocumentFacts(digest, document_format.value, reason=failure.reason, warnings=(failure.detail,))
    pages = rasterizer.facts(opened.page_count, wanted_dpi)
    return DocumentFacts(
        content_hash=digest,
        format=document_format.value,
        page_count=opened.page_count,
        repaired=opened.repaired,
        warnings=opened.warnings,
        pages=tuple(pages),
    )
