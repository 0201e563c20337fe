"""Which of two readings of a page stands: the sparse one, or the dense one made because it was doubted.

The dense one as a rule. It can be the worse one: a page that is beyond the model is as likely to run off in one as in the
other.
"""

from fastocr_core.output import PageText
from workers.assess import Assessment
from workers.outcomes import Outcome

# Doubts that come from how sure the model was; the others come from the page, and the model knows nothing of them.
OF_CONFIDENCE = frozenset({"suspicious", "low_confidence", "unsteady"})
NO_BETTER = "a dense second pass was made and was no better; the first reading stands"


def second_stands(first: PageText, one: Assessment, second: PageText, other: Assessment) -> bool:
    """Whether the second reading stands: always if nothing is doubted about it; else unless the first is better, which
    means that it alone ended by itself, or else fewer doubts come from its page, or else the model was surer of it.
    """
    if other.outcome is not Outcome.FLAGGED:
        return True
    return _merit(second, other) >= _merit(first, one)


def _merit(page_text: PageText, verdict: Assessment) -> tuple[bool, int, float]:
    of_the_page = [flag for flag in verdict.flags if flag not in OF_CONFIDENCE]
    return page_text.finish_reason == "stop", -len(of_the_page), page_text.mean_logprob
