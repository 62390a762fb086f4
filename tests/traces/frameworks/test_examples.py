"""The examples that need the extra `examples`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.deadlines import PROCESS_SECONDS
from tests.support.examples import EXAMPLES, ROOT, WITH_FRAMEWORKS

pytest.importorskip("agents", reason="needs the extra examples")
pytest.importorskip("langgraph", reason="needs the extra examples")

pytestmark = pytest.mark.frameworks

SCORED = "settings-lindau          success  0.5"


@pytest.mark.parametrize("script", WITH_FRAMEWORKS)
def test_script_runs(script: str) -> None:
    command = [sys.executable, EXAMPLES / script]
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_SECONDS,
    )
    assert done.stdout.splitlines()[-1] == SCORED
    assert len(done.stdout.splitlines()) == WITH_FRAMEWORKS[script]
