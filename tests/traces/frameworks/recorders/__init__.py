"""Runs the scenario in real frameworks with scripted models, and records their histories.

`python -m tests.traces.frameworks.recorders` writes what the installed frameworks record to
`tests/traces/recorded.jsonl`; the histories of frameworks that are not installed stay as they are.
`vercel.mjs` does the same for the AI SDK on Node.
"""
