"""Blocks as a careless model might give them, for what must hold whatever they are."""

from hypothesis import strategies as st

from fastocr_core.output import Block


def any_blocks(*texts: str) -> st.SearchStrategy[list[Block]]:
    """Some with one of the texts, some with any; boxes anywhere, upside down and nowhere."""
    box = st.none() | st.tuples(*[st.floats(-1e4, 1e4)] * 4)
    return st.lists(st.builds(Block, st.just("line"), box, st.sampled_from(["", "12", *texts]) | st.text()))
