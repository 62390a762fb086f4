"""Where results and rejects are written."""

from graphrag_eval_async.sinks.line_file import LineFile, write_report
from graphrag_eval_async.sinks.rejects import write_reject

__all__ = ["LineFile", "write_reject", "write_report"]
