"""The published results: which tests pass, which need a real container, and which are to be fixed.

`verdicts.yaml` is the source of docs/conformance.md, `verdicts-others.yaml` of docs/conformance-others.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml

DATA: Final = Path(__file__).with_name("verdicts.yaml")
OTHERS_DATA: Final = Path(__file__).with_name("verdicts-others.yaml")
PAGE: Final = Path(__file__).parents[2] / "docs" / "conformance.md"
OTHERS_PAGE: Final = PAGE.with_name("conformance-others.md")
_SIG: Final = re.compile(r"\[(sig-[a-z-]+)\] ")


class Omission(NamedTuple):
    """Tests that are not run: how many have names that match, and no entry before matches."""

    reason: str
    pattern: str
    tests: int


class Verdicts(NamedTuple):
    """Names of tests. `real` and `failing` have a reason for each; `unrun` have no result yet. `omitted` are
    too many to name."""

    release: str
    passing: list[str]
    real: Mapping[str, str]
    failing: Mapping[str, str]
    unrun: list[str]
    omitted: Sequence[Omission] = ()

    @property
    def names(self) -> list[str]:
        return sorted({*self.passing, *self.real, *self.failing, *self.unrun})

    def __or__(self, other: Verdicts) -> Verdicts:
        return Verdicts(
            self.release,
            self.passing + other.passing,
            {**self.real, **other.real},
            {**self.failing, **other.failing},
            self.unrun + other.unrun,
            (*self.omitted, *other.omitted),
        )

    def count_omitted(self, names: Iterable[str]) -> tuple[Counter[str], list[str]]:
        """Return how many tests each reason omits, and those that none does."""
        counts, others = Counter[str](), list[str]()
        for name in names:
            reason = next((one.reason for one in self.omitted if re.search(one.pattern, name)), None)
            if reason is None:
                others.append(name)
            else:
                counts[reason] += 1
        return counts, others


def read_verdicts(path: Path = DATA) -> Verdicts:
    """Read a data file. Raises ValueError for a test with two verdicts."""
    tree = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    real, failing = tree["real"] or {}, tree["fails"] or {}
    verdicts = Verdicts(
        tree["release"],
        tree["passes"],
        _reasons(real),
        _reasons(failing),
        tree["unrun"] or [],
        [Omission(**one) for one in tree.get("omitted") or ()],
    )
    listed = [*verdicts.passing, *verdicts.unrun]
    for names in (*real.values(), *failing.values()):
        listed += names
    count = len(listed)
    if count != len(verdicts.names):
        raise ValueError(f"{path}: a test has two verdicts")
    return verdicts


def _reasons(tests_by_reason: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: reason for reason, names in tests_by_reason.items() for name in names}


def render_page(verdicts: Verdicts) -> str:
    """Return docs/conformance.md."""
    lines = [INTRODUCTION.format(release=verdicts.release), *_summary(verdicts, LACKING), ""]
    for sig in sorted({_sig(name) for name in verdicts.names}):
        lines += [f"## {sig}", "", "| Test | Result |", "|---|---|"]
        for name in verdicts.names:
            if _sig(name) == sig:
                lines.append(f"| {_escape(name.removeprefix(f'[{sig}] '))} | {_result(verdicts, name)} |")
        lines.append("")
    return "\n".join(lines)


def render_others(verdicts: Verdicts) -> str:
    """Return docs/conformance-others.md."""
    lines = [
        OTHERS_INTRODUCTION.format(release=verdicts.release),
        *_summary(verdicts, "Need what a sandbox lacks"),
        "",
        "## Not run",
        "",
        f"{sum(one.tests for one in verdicts.omitted)} more tests are not run:",
        "",
        "| Tests | Why |",
        "|---|---|",
        *(f"| {one.tests} | {one.reason} |" for one in verdicts.omitted),
        "",
    ]
    by_result: dict[str, dict[str, list[str]]] = {}
    for name in verdicts.names:
        by_result.setdefault(_sig(name), {}).setdefault(_result(verdicts, name), []).append(name)
    for sig, results in sorted(by_result.items()):
        lines += [f"## {sig}", ""]
        for result in sorted(results, key=lambda result: (result != "passes", result)):
            lines += [f"**{result[0].upper()}{result[1:]}**", ""]
            lines += [f"- {_escape(name.removeprefix(f'[{sig}] '))}" for name in results[result]]
            lines.append("")
    return "\n".join(lines)


LACKING: Final = "Need a real container, network or kernel"

INTRODUCTION: Final = """# Conformance

Kubernetes' end-to-end tests {release}, run against `mooring up` with its scheduler, controllers and fake
nodes: all tests tagged [Conformance], and all of sig-scheduling, [Serial] and [Slow] ones among them. No
container runs in a sandbox cluster: what the usual commands and the programs of these tests would do is
[emulated](cluster.md#how-pods-run), with their variables and files, `kubectl exec`, and a
[network in memory](cluster.md#the-network). Every test of this list was run. Tests of other groups are on a
[page of their own](conformance-others.md).

```console
$ python -m tests.conformance --e2e path/to/e2e.test
```

runs the tests that pass, each shard on a cluster of its own, and exits with 1 if one fails. `--all` runs the
others too, `--focus` selects by a regular expression. The tests of this page take about 105 minutes one after
another, most of it waiting, so about an hour in two shards. `e2e.test` is part of the Kubernetes test
archive, or built from source with `make WHAT=test/e2e/e2e.test`; kubectl is taken from the same folder, or
from `PATH`.
"""

OTHERS_INTRODUCTION: Final = """# Other end-to-end tests

Kubernetes' end-to-end tests {release} that are not part of [Conformance](conformance.md), run against
`mooring up`. What Kubernetes itself skips without its own cloud, components or nodes counts as lacking.

```console
$ python -m tests.conformance --e2e path/to/e2e.test --focus 'sig-apps.*CronJob'
$ python -m tests.conformance --e2e path/to/e2e.test --focus 'sig-node.*PodLevel' --unlisted
```

The second runs tests that no list has.
"""


def _summary(verdicts: Verdicts, lacking: str) -> list[str]:
    lines = [
        f"| Group | Tests | Pass | {lacking} | To be fixed | Not run yet |",
        "|---|---|---|---|---|---|",
    ]
    for sig in (*sorted({_sig(name) for name in verdicts.names}), "all"):
        counts = [
            sum(sig in ("all", _sig(name)) for name in names)
            for names in (verdicts.names, verdicts.passing, verdicts.real, verdicts.failing, verdicts.unrun)
        ]
        lines.append(f"| {sig} | {' | '.join(map(str, counts))} |")
    return lines


def _result(verdicts: Verdicts, name: str) -> str:
    if name in verdicts.real:
        return f"needs {verdicts.real[name]}"
    if name in verdicts.failing:
        return f"to be fixed: {verdicts.failing[name]}"
    return "not run yet" if name in verdicts.unrun else "passes"


def _sig(name: str) -> str:
    match = _SIG.match(name)
    return match.group(1) if match else "other"


def _escape(text: str) -> str:
    return re.sub(r"([\[\]|<>*_])", r"\\\1", text)
