"""The forecasts of every user: learning them, asking for them, looking back at them."""

from __future__ import annotations

from jobsight_server.forecasts.ask import Question, answer_texts, answers, no_history
from jobsight_server.forecasts.history import history
from jobsight_server.forecasts.learn import Learner, rebuild

__all__ = ["Learner", "Question", "answer_texts", "answers", "history", "no_history", "rebuild"]
