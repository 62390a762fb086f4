"""The command line, which waits longer for its readers: on a busy machine, a test may be slow to read.

python -m tests.cli.patient
"""

from __future__ import annotations

from graphrag_eval_async.cli import main
from graphrag_eval_async.sinks import files

if __name__ == "__main__":
    vars(files)["PATIENCE_SECONDS"] = 60.0
    main()
