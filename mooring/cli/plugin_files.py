"""The files of a new plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

_PACKAGED = Path(__file__).parent / "new_package" / "deploy"
MANIFESTS = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[2] / "deploy"
"""Mooring's manifests: part of a wheel, or of the repository."""

_SAMPLES = {"scheduler.yaml": "scheduler.yaml", "nodes.yaml": "nodes.yaml", "pod.yaml": "pod.yaml"}


def plugin_files(names: Mapping[str, str]) -> dict[str, str]:
    """Return the contents of the files of a plugin in one module, by path."""
    module = names["module"]
    targets = {"plugin.py": f"{module}.py", "test_plugin.py": f"test_{module}.py", **_SAMPLES}
    return _fill_in("new_plugin", targets, names)


def package_files(names: Mapping[str, str]) -> dict[str, str]:
    """Return the contents of the files of a plugin as a package that can be deployed, by path."""
    module = names["module"]
    plugin = {"plugin.py": f"src/{module}/__init__.py", "test_plugin.py": f"tests/test_{module}.py"}
    package = {
        "README.md": "README.md",
        "pyproject.toml": "pyproject.toml",
        "Dockerfile": "Dockerfile",
        "kustomization.yaml": "deploy/kustomization.yaml",
        "deployed-scheduler.yaml": "deploy/scheduler.yaml",
    }
    return {
        **_fill_in("new_plugin", {**plugin, **_SAMPLES}, names),
        **_fill_in("new_package", package, names),
        **dict(_manifests()),
    }


def _fill_in(templates: str, targets: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    folder = files(f"mooring.cli.{templates}")
    return {
        target: Template((folder / f"{source}.txt").read_text()).substitute(names)
        for source, target in targets.items()
    }


def _manifests() -> Iterator[tuple[str, str]]:
    """Yield Mooring's own manifests, which the package's overlay builds on."""
    for part in ("base", "overlays/second-scheduler"):
        for file in sorted((MANIFESTS / part).glob("*.yaml")):
            yield f"deploy/mooring/{part}/{file.name}", file.read_text()
