"""Shares live responses out to workers on many hosts, by a stream of a Redis server."""
