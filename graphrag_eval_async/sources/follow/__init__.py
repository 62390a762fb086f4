"""Following of files while they are written, however they are rotated.

From the outside in:

- `follower`: a thread looks at the files and reads them; the event loop takes the lines.
- `logs`: one look at all files, and the order in which they are read.
- `rotation`: finds out which log a file is, after logs were renamed, truncated, copied or replaced.
- `packed`: reads logs that were compressed.
- `identity`: recognizes files in a later run, by what the journal has of them.
- `names`: finds the files for which the caller's paths stand, and recognizes names of rotated
  files.
- `table`, `log`, `descriptors`: all logs, one log, and the open ones.
- `unread`: the files that cannot be read, and why.
"""

from graphrag_eval_async.sources.follow.follower import Follower as Follower
from graphrag_eval_async.sources.follow.follower import Lag as Lag
from graphrag_eval_async.sources.follow.follower import follow_jsonl as follow_jsonl
