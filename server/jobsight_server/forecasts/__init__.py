"""The forecasts of every user: learning them, asking for them, looking back at them."""

from __future__ import annotations

from jobsight_server.forecasts.ask import Question, answer_texts, answers
from jobsight_server.forecasts.failure import take_failure
from jobsight_server.forecasts.history import history
from jobsight_server.forecasts.method import Method, method_of
from jobsight_server.forecasts.reader import AnswerReader
from jobsight_server.forecasts.rebuild import rebuild, rebuild_if_made_otherwise

__all__ = [
    "AnswerReader",
    "Method",
    "Question",
    "answer_texts",
    "answers",
    "history",
    "method_of",
    "rebuild",
    "rebuild_if_made_otherwise",
    "take_failure",
]
