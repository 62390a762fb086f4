"""Data that passes through an evaluation: questions, lines, responses and rejects."""

from graphrag_eval_async.records.line import BYTE_ORDER_MARK as BYTE_ORDER_MARK
from graphrag_eval_async.records.line import Copy as Copy
from graphrag_eval_async.records.line import FileId as FileId
from graphrag_eval_async.records.line import Known as Known
from graphrag_eval_async.records.line import Line as Line
from graphrag_eval_async.records.line import LongLine as LongLine
from graphrag_eval_async.records.line import Position as Position
from graphrag_eval_async.records.line import Reason as Reason
from graphrag_eval_async.records.line import Record as Record
from graphrag_eval_async.records.line import Unwritable as Unwritable
from graphrag_eval_async.records.line import write_line as write_line
from graphrag_eval_async.records.line import write_usual as write_usual
from graphrag_eval_async.records.question import Question as Question
from graphrag_eval_async.records.reject import Reject as Reject
from graphrag_eval_async.records.reject import Rejects as Rejects
from graphrag_eval_async.records.response import Response as Response
from graphrag_eval_async.records.response import read_record as read_record
