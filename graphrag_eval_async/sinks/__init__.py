"""Writers of results and rejects."""

from graphrag_eval_async.sinks.files import LineFile, write_report
from graphrag_eval_async.sinks.rejects import MAX_REJECT_BYTES, RejectWriter

__all__ = ["MAX_REJECT_BYTES", "LineFile", "RejectWriter", "write_report"]
