"""Data that passes through an evaluation: questions, lines, responses and rejects."""

from graphrag_eval_async.records.line import (
    BYTE_ORDER_MARK,
    FileId,
    Known,
    Line,
    LongLine,
    Position,
    Reason,
    Record,
    Unwritable,
    write_line,
)
from graphrag_eval_async.records.question import Question
from graphrag_eval_async.records.reject import Reject, Rejects
from graphrag_eval_async.records.response import Response, read_record

__all__ = [
    "BYTE_ORDER_MARK",
    "FileId",
    "Known",
    "Line",
    "LongLine",
    "Position",
    "Question",
    "Reason",
    "Record",
    "Reject",
    "Rejects",
    "Response",
    "Unwritable",
    "read_record",
    "write_line",
]
