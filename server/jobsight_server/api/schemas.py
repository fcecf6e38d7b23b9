"""What the API answers, as JSON Schema. Times are UTC epoch seconds; null means that there is no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobsight_predictor.bounds import BASES
from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.group import CANDIDATES
from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.lifecycle import STATES
from jobsight_server.api.batch_schema import BATCH
from jobsight_server.api.job_fields import FIELDS, RESERVED_AT_MOST
from jobsight_server.api.routes import NAME
from jobsight_server.forecasts.per import PER

Schema = dict[str, Any]


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def listing(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def table_of(values: Schema) -> Schema:
    """An object that maps any name to such a value."""
    return {"type": "object", "additionalProperties": values}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(values: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(values)}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
INTEGER_OR_NULL: Schema = {"type": ["integer", "null"]}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
METRIC = one_of(tuple(METRICS))
STATE = one_of(STATES)
STATUS = one_of(("up", "late", "silent"))

_ANSWER = {
    "cluster": TEXT_OR_NULL,
    "user": TEXT,
    "metric": METRIC,
    "per": one_of(PER),
    "unit": TEXT,
    "value": NUMBER_OR_NULL,
    "forecaster": or_null(one_of(CANDIDATES)),
    "level": TEXT_OR_NULL,
    "n": INTEGER,
    "probability": or_null(SHARE),
    "bound": NUMBER_OR_NULL,
    "bound_basis": or_null(one_of(BASES)),
    "exceed_probability": or_null(SHARE),
    "coverage": SHARE,
    "observed_coverage": or_null(SHARE),
    "observed_cost_coverage": or_null(SHARE),
    "runner_up": or_null(record({"value": NUMBER, "forecaster": one_of(CANDIDATES), "level": TEXT})),
    "last_values": listing(NUMBER),
    "reason": TEXT_OR_NULL,
    "regret": or_null(record({"jobs": INTEGER, "answered": SHARE, "best": SHARE, "best_candidate": TEXT})),
    "user_jobs": INTEGER,
    "forecasts": record(dict.fromkeys(FIVE, NUMBER_OR_NULL)),
    "accuracy": record({name: or_null(SHARE) for name in FIVE}),
    "pqm": or_null(SHARE),
    "recent_pqm": or_null(SHARE),
    "updated": NUMBER_OR_NULL,
}
_JOB_FIELDS = {name: or_null({**schema, "description": meaning}) for name, (meaning, schema) in FIELDS.items()}
_PAGES = {"page": INTEGER, "pages": INTEGER, "total": INTEGER}
_TALLY = record({"name": TEXT, "label": TEXT, "value": INTEGER})
_NODE_FIGURES = record(
    {
        **dict.fromkeys(("total", "up", "late", "silent"), INTEGER),
        **dict.fromkeys(("newest_age_s", "median_age_s", "oldest_age_s"), NUMBER_OR_NULL),
    }
)
_JOB_FIGURES = record(dict.fromkeys((*STATES, "profiled", "waiting"), INTEGER))
_RUN = {
    "cluster": TEXT,
    "job_id": TEXT,
    "start": NUMBER,
    "end": NUMBER_OR_NULL,
    "state": STATE,
    "user": TEXT,
    **dict.fromkeys(("group", "account", "name", "queue", "requested_nodes"), TEXT_OR_NULL),
    **dict.fromkeys(("created", "queued", "eligible", "requested_walltime_s"), NUMBER_OR_NULL),
    **dict.fromkeys(("used_cpu_s", "used_walltime_s"), NUMBER_OR_NULL),
    **dict.fromkeys(("processors", "exit_status"), INTEGER_OR_NULL),
    **dict.fromkeys(("requested_memory_bytes", "used_memory_bytes"), INTEGER_OR_NULL),
    "recorded_at": NUMBER,
    "profiled": {"type": "boolean"},
    "over_bound": listing(METRIC),
}
_TIMELINE = record(
    {
        "since": NUMBER,
        "until": NUMBER,
        "time": listing(NUMBER),
        **dict.fromkeys(("in_bps", "out_bps", "memory_used_bytes", "cpu_utilisation"), listing(NUMBER_OR_NULL)),
    }
)
_NODE = {
    "cluster": TEXT,
    "name": TEXT,
    "status": STATUS,
    "age_s": NUMBER,
    "received_at": NUMBER,
    "first_time": NUMBER,
    "last_time": NUMBER,
    "clock_skew_s": NUMBER_OR_NULL,
    "cpus": INTEGER,
    "memory_total_bytes": INTEGER_OR_NULL,
    "boot_id": TEXT,
    **dict.fromkeys(("samples", "boots", "wraps", "resets", "missing"), INTEGER),
    "interfaces": listing({"type": "object"}),
    "agent": {"type": "object"},
}

SCHEMAS: dict[str, Schema] = {
    "Error": record({"error": TEXT}),
    "Text": TEXT,
    "OpenApi": {"type": "object"},
    "Health": record({"status": one_of(("ok",))}),
    "Ready": record({"status": one_of(("ok", "unavailable")), "reason": TEXT_OR_NULL}),
    "Batch": BATCH,
    "Stored": record({"status": one_of(("stored", "duplicate"))}, {"samples": INTEGER}),
    "Answer": record(_ANSWER),
    "Predictions": record({"predictions": listing(ref("Answer"))}),
    "Questions": record(
        {
            "questions": {
                **listing(
                    record(
                        {"cluster": NAME, "user": NAME},
                        {"metric": {"type": ["string", "null"], "enum": [*METRICS, None]}, **_JOB_FIELDS},
                    )
                ),
                "maxItems": 10_000,
            }
        }
    ),
    "Failure": record(
        {
            "cluster": NAME,
            "user": NAME,
            "metric": METRIC,
            "reserved": {
                "anyOf": [
                    {"type": "number", "exclusiveMinimum": 0, "maximum": RESERVED_AT_MOST},
                    {"type": "string", "description": "memory such as 4gb, a run time such as 01:00:00"},
                ]
            },
        },
        _JOB_FIELDS,
    ),
    "UserList": record(
        {
            "users": listing(
                record(
                    {
                        "cluster": TEXT,
                        "user": TEXT,
                        "jobs": INTEGER,
                        "first_start": NUMBER,
                        "last_end": NUMBER_OR_NULL,
                        "metrics": record({metric: or_null(ref("Answer")) for metric in METRICS}),
                    }
                )
            ),
            **_PAGES,
            "sort": TEXT,
            "descending": {"type": "boolean"},
            "search": TEXT_OR_NULL,
        }
    ),
    "UserProfile": record(
        {
            "cluster": TEXT,
            "user": TEXT,
            "jobs": table_of(INTEGER),
            "last_end": NUMBER_OR_NULL,
            "metrics": listing(record({**_ANSWER, "history": {"type": "object"}})),
        }
    ),
    "JobList": record({"jobs": listing(record(_RUN)), **_PAGES}),
    "Job": record(
        {
            "now": NUMBER,
            "cluster": TEXT,
            "job_id": TEXT,
            "runs": listing(
                record(
                    {
                        **_RUN,
                        "exec_host": TEXT_OR_NULL,
                        "profile": listing(
                            record(
                                {
                                    "metric": METRIC,
                                    "unit": TEXT,
                                    **dict.fromkeys(("value", "peak", "forecast", "bound"), NUMBER_OR_NULL),
                                    "so_far": NUMBER_OR_NULL,
                                    "provisional": {"type": "boolean"},
                                    "probability": or_null(SHARE),
                                    **dict.fromkeys(("source", "attribution", "reason"), TEXT_OR_NULL),
                                    "learned": {"type": "boolean"},
                                }
                            )
                        ),
                        **dict.fromkeys(("memory_mean", "memory_idle_age_s"), NUMBER_OR_NULL),
                        "memory_source": TEXT_OR_NULL,
                        "nodes": listing(
                            record(
                                {
                                    "node": TEXT,
                                    "processors": INTEGER,
                                    "series": or_null(_TIMELINE),
                                    "reason": TEXT_OR_NULL,
                                }
                            )
                        ),
                        "nodes_drawn": INTEGER,
                    }
                )
            ),
        }
    ),
    "NodeList": record({"now": NUMBER, "nodes": listing(record(_NODE))}),
    "Node": record(
        {
            "now": NUMBER,
            **_NODE,
            "series": _TIMELINE,
            "runs": listing(
                record(
                    {
                        "job_id": TEXT,
                        "user": TEXT,
                        "start": NUMBER,
                        "end": NUMBER_OR_NULL,
                        "state": STATE,
                        "processors": INTEGER,
                    }
                )
            ),
            "runs_listed_at_most": INTEGER,
        }
    ),
    "Overview": record(
        {
            "now": NUMBER,
            "clusters": listing(
                record({"cluster": TEXT, "nodes": _NODE_FIGURES, "jobs": _JOB_FIGURES, "users": INTEGER})
            ),
            "nodes": _NODE_FIGURES,
            "jobs": _JOB_FIGURES,
            "users": INTEGER,
            "ingest": record(
                {
                    "samples": INTEGER,
                    "batches": table_of(INTEGER),
                    "rate": record({"bar_s": NUMBER, "time": listing(NUMBER), "samples_per_s": listing(NUMBER)}),
                }
            ),
            "answered": listing(
                record(
                    {"metric": METRIC, "jobs": INTEGER}
                    | dict.fromkeys(("accuracy", "within20", "coverage", "cost_coverage"), or_null(SHARE))
                )
            ),
            "refused": listing(_TALLY),
            "refused_total": INTEGER,
        }
    ),
    "Refused": record(
        {
            "refused": listing(_TALLY),
            "tallies": listing(_TALLY),
            "quarantine": listing(
                record(
                    {
                        "id": INTEGER,
                        "received_at": NUMBER,
                        "cluster": TEXT_OR_NULL,
                        "node": TEXT_OR_NULL,
                        "reason": TEXT,
                        "bytes": INTEGER,
                        "retry": {"type": "boolean"},
                    }
                )
            ),
            **dict.fromkeys(
                ("quarantine_kept", "quarantine_held_bytes", "quarantine_dropped", "quarantine_taken_in"), INTEGER
            ),
            "accounting_rejects": listing(
                record({"id": INTEGER, "cluster": TEXT, "path": TEXT, "line": INTEGER, "reason": TEXT, "text": TEXT})
            ),
            "accounting_rejects_kept": INTEGER,
        }
    ),
}
