"""Monitoring of a run where people look; reads the public API, and the engine knows nothing of it."""
