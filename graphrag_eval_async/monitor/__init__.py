"""Watches a running evaluation: its live page and its alerts."""
