"""``watch``: follow logs, and show how the agents that write them are doing."""
