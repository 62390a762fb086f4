"""From a record of any source to a response, or to the reason why it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.decoding import InvalidRecord
from graphrag_eval_async.records.line import Line, LongLine, Record
from graphrag_eval_async.records.reject import Reject, reject, reject_long
from graphrag_eval_async.records.response import Response, read_response

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_TEXT = {"invalid_utf8", "invalid_json"}
"""Reasons that may be gone once the rest of a line has come."""


def read_record(record: Record, known: Mapping[str, Any]) -> Response | Reject:
    """The response that a record holds to one of the questions whose ids are the keys of `known`."""
    if isinstance(record, Line):
        try:
            return read_response(record.data, known)
        except InvalidRecord as error:
            if not record.whole and error.reason in _OF_TEXT:
                return reject(record, "incomplete", f"its newline did not come; so far: {error}")
            return reject(record, error.reason, str(error))
    if isinstance(record, LongLine):
        return reject_long(record)
    return reject(record, record.reason, record.message)
