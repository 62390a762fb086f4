"""The journal: stores the results of a stream on disk, so that it can be resumed."""

from graphrag_eval_async.sinks.journal.admission import Admission, Dedupe, Source, read_source
from graphrag_eval_async.sinks.journal.done import Numbers
from graphrag_eval_async.sinks.journal.lines import SetAside
from graphrag_eval_async.sinks.journal.options import Fsync, Journal
from graphrag_eval_async.sinks.journal.store import OpenJournal

__all__ = [
    "Admission",
    "Dedupe",
    "Fsync",
    "Journal",
    "Numbers",
    "OpenJournal",
    "SetAside",
    "Source",
    "read_source",
]
