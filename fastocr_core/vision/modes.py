"""Image modes: whatever a file or a caller hands over becomes 8-bit grey or RGB before anyone looks at it."""

from PIL import Image


def to_grey_or_rgb(image: Image.Image) -> Image.Image:
    """Bring any mode to L or RGB: transparency on white, 16-bit and float scaled, grey palettes to L."""
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _scaled_to_bytes(image)
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa", "RGBX") or image.has_transparency_data:
        grey = image.mode in ("LA", "La")
        layered = image.convert("RGBA")
        paper = Image.new("RGBA", layered.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, layered).convert("L" if grey else "RGB")
    if image.mode == "P":
        palette = image.getpalette("RGB") or []
        is_grey = all(palette[i] == palette[i + 1] == palette[i + 2] for i in range(0, len(palette) - 2, 3))
        return image.convert("L" if is_grey else "RGB")
    return image.convert("RGB")


def _scaled_to_bytes(image: Image.Image) -> Image.Image:
    """Map 16-bit, 32-bit or float samples to bytes: 16-bit by its range, anything else by what occurs."""
    wide = image.convert("F")
    low, high = wide.getextrema()
    if image.mode.startswith("I") and isinstance(high, int | float) and 255 < high <= 65535:
        low, high = 0.0, 65535.0
    span = max(float(high) - float(low), 1e-6)  # type: ignore[arg-type]
    shifted = wide.point(lambda value: value * (255.0 / span) - float(low) * 255.0 / span)  # type: ignore[arg-type]
    return shifted.convert("L")
