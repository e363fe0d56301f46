"""Whether `/health` told the truth: what it said, held against what clients got in the same seconds; pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from serving.health import PERIOD_S, STALE_S
from serving.load import OK, Answer
from serving.watch import Look

LAG_S = STALE_S + PERIOD_S
"""How long `/health` may take to learn that the model is silent, or that it answers again."""
GRACE_S = 1.0
"""What a look and an answer that belong together may lie apart."""
GAP_S = 1.5
"""A service that answers leaves no longer pause than this under load."""
REFUSED = {"429"}


def untrue(looks: Sequence[Look], answers: Sequence[Answer], lag_s: float = LAG_S) -> list[str]:
    """What each untrue look claimed, and what clients got meanwhile.

    "200" is untrue when everybody who asked from `lag_s` before to a second after went without an answer. Anything else
    is untrue when in that time answers came without a pause and nothing but answers. In between, either may be said.
    """
    began = min((answer.began for answer in answers), default=0.0)
    return [said for look in looks if look.began - lag_s >= began for said in _untrue(look, answers, lag_s)]


def _untrue(look: Look, answers: Sequence[Answer], lag_s: float) -> Iterator[str]:
    start, end = look.began - lag_s, look.ended + GRACE_S
    meanwhile = [answer for answer in answers if start <= answer.ended <= end]
    right = sorted(answer.ended for answer in meanwhile if answer.status == OK)
    wrong = sum(answer.status not in {OK, *REFUSED} for answer in meanwhile)
    if look.status == OK:
        waited = sum(answer.began < look.began and answer.ended > end for answer in answers)
        if not right and wrong + waited:
            yield f"200 while {wrong + waited} requests went without an answer and none got one"
    elif not wrong and max((b - a for a, b in pairwise([start, *right, end])), default=lag_s) <= GAP_S:
        yield f"{look.status} while {len(right)} requests were answered and none failed"
