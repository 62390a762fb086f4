"""Shares live responses among workers on many hosts, through a stream of a Redis server."""
