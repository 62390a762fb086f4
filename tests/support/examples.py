"""Where the examples are, and which of them need what."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WITH_FRAMEWORKS = {"agents_processor.py": 6, "langchain_handler.py": 6}
"""Those that need the extra `examples`; they run in `tests/traces/frameworks`."""
