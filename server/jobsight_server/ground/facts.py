"""Facts of jobs: numbers known at submission, such as ``input_bytes``, from logs and comments.

In a comment they are a word, ``jobsight:input_bytes=3.1e9,samples=12``. Other values are dropped and counted.
``jobsight:keep`` is the fact ``keep=1``: the job's requests should stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite
from typing import NamedTuple

import msgspec

from jobsight_predictor.question import Facts

FACTS_AT_MOST = 32
KEEP = "keep"
FACT_NAME = r"[A-Za-z0-9_.-]{1,64}"
_NAME = re.compile(FACT_NAME)
_WORD = re.compile(r"\bjobsight:([^\s;]+)")
_decode = msgspec.json.Decoder(dict[str, float]).decode


class FoundFacts(NamedTuple):
    """Facts as stored, JSON with sorted names; None if there are none. ``dropped`` others were unusable."""

    text: str | None = None
    dropped: int = 0


def found_facts(pairs: Iterable[tuple[str, str]]) -> FoundFacts:
    """Select the facts among ``pairs``; the last one of a repeated name counts.

    >>> found_facts([("samples", "12"), ("a b", "1"), ("reads", "nan"), ("input_bytes", "3.1e9")])
    FoundFacts(text='{"input_bytes":3100000000.0,"samples":12.0}', dropped=2)
    """
    facts: dict[str, float] = {}
    dropped = 0
    for name, text in pairs:
        value = _number(text)
        if value is None or not _NAME.fullmatch(name) or (name not in facts and len(facts) == FACTS_AT_MOST):
            dropped += 1
        else:
            facts[name] = value
    return FoundFacts(msgspec.json.encode(facts, order="sorted").decode() if facts else None, dropped)


def facts_in(*comments: str | None) -> FoundFacts:
    """Find the facts in comments.

    >>> facts_in("jobsight: 2G will do; jobsight:samples=12", None, "jobsight:reads=1e6,x")
    FoundFacts(text='{"reads":1000000.0,"samples":12.0}', dropped=1)
    """
    words = [word for comment in comments if comment for word in _WORD.findall(comment)]
    parts = ((f"{part}=1" if part == KEEP else part).partition("=") for word in words for part in word.split(","))
    return found_facts((name, value) for name, _, value in parts) if words else FoundFacts()


def facts_of(text: str | None) -> Facts:
    """Stored facts, as questions have them."""
    return tuple(_decode(text).items()) if text else ()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
