"""How well pages are read, how sparse decoding compares, and what confidence tells: the measurements behind `fastocr eval`.

Needs the extra `eval`. Everything here takes pages and models and gives plain results; files are read elsewhere.
"""
