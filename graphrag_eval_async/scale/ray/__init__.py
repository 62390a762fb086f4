"""Evaluates a backlog of responses on a Ray cluster, with Ray Data."""
