"""Following of files while they are written, however they are rotated."""

from graphrag_eval_async.sources.follow.follower import Follower as Follower
from graphrag_eval_async.sources.follow.follower import Lag as Lag
from graphrag_eval_async.sources.follow.follower import follow_jsonl as follow_jsonl
