"""dots.ocr: a vision tower of its own, a Qwen2 decoder, page layout as JSON. Unverified against real weights."""
