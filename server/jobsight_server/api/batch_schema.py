"""The wire format of samples as JSON Schema; what it cannot say (equal lengths, rising times) is answered 422."""

from __future__ import annotations

from typing import Any

from jobsight_server.ingest.wire import LARGEST_INTEGER, MAX_INTERFACES, MAX_MARKS, MAX_READINGS

_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\\u0000]+$"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": LARGEST_INTEGER}
_COUNT_OR_NULL = {**_COUNT, "type": ["integer", "null"]}
_SECONDS = {"type": "number", "minimum": 0}


def _record(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": values, "maxItems": MAX_READINGS}


_INTERFACE = _record(
    {
        "name": {"type": "string", "minLength": 1, "maxLength": 64},
        "kind": {"type": "string", "enum": ["ethernet", "infiniband", "opa", "other"]},
        "width_bits": {"type": "integer", "enum": [32, 64]},
    },
    {"speed_bps": {"type": ["number", "null"], "exclusiveMinimum": 0}},
)
_MARK = _record(
    {
        "index": {"type": "integer", "minimum": 0, "maximum": MAX_READINGS - 1},
        "job": _NAME,
        "event": {"type": "string", "enum": ["start", "end"]},
    },
    {},
)
_RAW = {"type": ["integer", "null"], "minimum": 0, "maximum": 2**64 - 1}
_PER_INTERFACE = {"type": "array", "items": _columns(_RAW), "maxItems": MAX_INTERFACES}

BATCH: dict[str, Any] = _record(
    {
        "format": {"type": "integer", "enum": [1]},
        "cluster": _NAME,
        "node": _NAME,
        "boot_id": {**_NAME, "maxLength": 64},
        "sequence": _COUNT,
        "cpus": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
        "interfaces": {"type": "array", "items": _INTERFACE, "maxItems": MAX_INTERFACES},
        "time": {**_columns({"type": "number", "minimum": 0}), "minItems": 1},
        "bytes_in": _PER_INTERFACE,
        "bytes_out": _PER_INTERFACE,
        "memory_used_bytes": _columns(_COUNT_OR_NULL),
        "cpu_busy_s": _columns({**_SECONDS, "type": ["number", "null"]}),
    },
    {
        "sent_at": {"type": ["number", "null"]},
        "memory_total_bytes": _COUNT_OR_NULL,
        "marks": {"type": "array", "items": _MARK, "maxItems": MAX_MARKS},
        "agent": {"type": "object", "description": "the agent's own cost, see docs/wire-format.md"},
    },
)
