"""`mooring view`: a page over files."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_view_serves_files_until_it_is_stopped() -> None:
    command = [sys.executable, "-m", "mooring.cli", "view"]
    command += [str(EXAMPLES / "quickstart" / name) for name in ("cluster.yaml", "pods.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.match(r"page: (http://127\.0\.0\.1:\d+)/\?token=(\S+)$", process.stdout.readline())
            assert found is not None
            request = urllib.request.Request(f"{found[1]}/v1/pods/default/web-1")
            request.add_header("Authorization", f"Bearer {found[2]}")
            with urllib.request.urlopen(request, timeout=30) as reply:
                assert json.load(reply)["state"] == "pending"
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_view_of_a_missing_file_fails() -> None:
    command = [sys.executable, "-m", "mooring.cli", "view", "/nowhere.yaml"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "/nowhere.yaml" in result.stderr
