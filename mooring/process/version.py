"""/version: which Kubernetes this scheduler behaves like, and which build it is."""

from __future__ import annotations

import platform
import sys

from mooring import __version__

KUBERNETES = "1.36"


def version_info() -> dict[str, str]:
    """The fields of Kubernetes' own answer, as far as they mean something here."""
    major, minor = KUBERNETES.split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{KUBERNETES}.0+mooring-{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{sys.platform}/{machine}",
    }
