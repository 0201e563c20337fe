"""Measures of how well a page was read. Needs the extra `eval` where edit distances are computed."""
