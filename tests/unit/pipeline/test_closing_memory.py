"""Closing a run takes as much memory for many documents as for few."""

import json
import subprocess
import sys
from pathlib import Path

FEW, TIMES = 150, 10
MOST_GROWTH_BYTES = 100_000  # a counter in memory for each of 1,350 documents more would take ten times that


def test_memory_of_closing_does_not_grow_with_the_documents(tmp_path: Path, repository: Path) -> None:
    command = [sys.executable, "-m", "tests.support.closing_memory", str(tmp_path)]
    counts = [str(FEW // 2), str(FEW), str(FEW * TIMES)]
    said = subprocess.run([*command, *counts], cwd=repository, capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stderr
    _, few, many = json.loads(said.stdout)
    print(f"{FEW} documents {few}, {FEW * TIMES} documents {many}")
    assert few["python"] > 0
    assert few["arrow"] > 0
    assert many["python"] - few["python"] <= MOST_GROWTH_BYTES
    assert many["arrow"] - few["arrow"] <= MOST_GROWTH_BYTES
