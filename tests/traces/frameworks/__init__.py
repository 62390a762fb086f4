"""Histories that real agent frameworks write, with models that are faked by their own means."""
