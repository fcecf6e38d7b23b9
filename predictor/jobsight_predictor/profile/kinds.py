"""Groups besides those of the templates: by kind of job, by share of the request, and of first jobs of each kind."""

from __future__ import annotations

from jobsight_predictor.templates import Key, Question

SHARES = (("user", "application"), ("user",), ())
"""Groups whose values are kept as shares of what the job requested."""

SHARE = 1 << 6
FIRST = 1 << 7
"""Bits besides those of the fields in a group's key: its values are shares; it contains first jobs of a kind."""

_USER, _APPLICATION = 1, 2


def kind_key(question: Question) -> Key:
    """A user's application, or the user if no application is known: the jobs that a burst consists of."""
    if question.application is None:
        return (0, ()) if question.user is None else (_USER, (question.user,))
    if question.user is None:
        return _APPLICATION, (question.application,)
    return _USER | _APPLICATION, (question.user, question.application)


def share_keys(question: Question) -> list[Key | None]:
    """The groups of shares of the request, as in ``SHARES``; None for one that would equal the next."""
    kind = kind_key(question)
    user = None if question.user is None else (SHARE | _USER, (question.user,))
    own = (SHARE | kind[0], kind[1]) if question.application is not None and user is not None else None
    return [own, user, (SHARE, ())]


def first_keys(question: Question, shares: bool) -> list[Key]:
    """The groups of the first job of each kind to end: of the user, and of the site."""
    bits = FIRST | (SHARE if shares else 0)
    site: Key = (bits, ())
    return [site] if question.user is None else [(bits | _USER, (question.user,)), site]
