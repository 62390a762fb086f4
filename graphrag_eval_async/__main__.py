"""``python -m graphrag_eval_async``: the command line."""

from graphrag_eval_async.cli import main

if __name__ == "__main__":
    main()
