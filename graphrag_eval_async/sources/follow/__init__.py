"""Following of files while they are written, however they are rotated.

From the outside in:

- `follower`: the loop. A thread looks at the files and reads them; the event loop takes the lines.
- `logs`: what one look does, and which log is read next.
- `rotation`: which log a file is that was renamed, truncated, copied, replaced or compressed
  (`packed`).
- `identity`: how a file is recognised in a later run, and what is noted in the journal for that.
- `names`: the files that the given paths stand for, and the names of rotated files.
- `table`, `log`, `descriptors`: all logs, one log, and how many are open.
- `unread`: what could not be read, and why.
"""

from graphrag_eval_async.sources.follow.follower import Follower as Follower
from graphrag_eval_async.sources.follow.follower import Lag as Lag
from graphrag_eval_async.sources.follow.follower import follow_jsonl as follow_jsonl
