"""Run Kubernetes' end-to-end tests against sandbox clusters: `python -m tests.conformance --e2e PATH`.

Exits with 1 if a test fails that the published lists (docs/conformance.md, docs/conformance-others.md) say
passes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.conformance.e2e import list_tests, run_tests
from tests.conformance.verdicts import (
    OTHERS_DATA,
    OTHERS_PAGE,
    PAGE,
    Verdicts,
    read_verdicts,
    render_others,
    render_page,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--e2e", type=Path, metavar="PATH", help="e2e.test binary")
    parser.add_argument("--kubectl", metavar="PATH", help="kubectl (default: next to e2e.test, or in PATH)")
    parser.add_argument(
        "--shards", type=int, default=2, help="Clusters and processes in parallel (default 2)"
    )
    parser.add_argument(
        "--focus", default="", metavar="REGEX", help="Run tests whose names match (default: all)"
    )
    parser.add_argument("--all", action="store_true", help="Run tests that are listed as failing, too")
    parser.add_argument("--unlisted", action="store_true", help="Run tests that are not listed instead")
    parser.add_argument(
        "--timeout", type=int, default=400, metavar="SECONDS", help="Time per test on average (default 400)"
    )
    parser.add_argument("--logs", type=Path, metavar="DIR", help="Folder for logs (default: a temporary one)")
    parser.add_argument("--write-docs", action="store_true", help="Write the published lists and exit")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the clusters, too
    conformance, others = read_verdicts(), read_verdicts(OTHERS_DATA)
    if args.write_docs:
        PAGE.write_text(render_page(conformance))
        OTHERS_PAGE.write_text(render_others(others))
        return 0
    if args.e2e is None:
        parser.error("--e2e is required")
    kubectl = args.kubectl or shutil.which(args.e2e.parent / "kubectl") or shutil.which("kubectl") or ""
    verdicts, existing = conformance | others, list_tests(args.e2e)
    chosen = verdicts.names if args.all else verdicts.passing
    if args.unlisted:
        chosen = sorted(set(existing) - set(verdicts.names))
    names = sorted(name for name in chosen if re.search(args.focus, name))
    logs = args.logs or Path(tempfile.mkdtemp(prefix="conformance-"))
    logs.mkdir(parents=True, exist_ok=True)
    report_differences(existing, conformance, others)
    return run(args.e2e, kubectl, names, args.shards, logs, args.timeout, verdicts)


def run(
    binary: Path, kubectl: str, names: list[str], shards: int, logs: Path, timeout: int, verdicts: Verdicts
) -> int:
    """Run tests, print each result, and return the exit code."""
    print(f"{len(names)} tests on {shards} clusters, logs in {logs}", file=sys.stderr)
    passing, waiting = set(verdicts.passing), set(names)
    passed = regressions = 0
    for result in run_tests(binary, kubectl, names, shards, logs, timeout):
        passed += result.passed
        waiting.discard(result.name)
        listed = result.name in passing
        regressions += listed and not result.passed
        word = "pass" if result.passed else "FAIL"
        progress = f"[{len(names) - len(waiting)}/{len(names)}]"
        note = "" if listed == result.passed else " (regression)" if listed else " (listed as failing)"
        print(f"{progress} {word} {result.seconds:4.0f}s {result.name}{note}", flush=True)
        if not result.passed:
            print(f"      {result.message}", flush=True)
    for name in sorted(waiting):  # a shard ended early
        regressions += 1
        print(f"FAIL       {name}\n      not run")
    print(f"{passed} of {len(names)} passed, {regressions} regressions")
    return 1 if regressions else 0


def report_differences(existing: list[str], conformance: Verdicts, others: Verdicts) -> None:
    """Report tests that are missing in the lists, and listed tests that the binary lacks."""
    listed = {*conformance.names, *others.names}
    counts, unknown = others.count_omitted(name for name in existing if name not in listed)
    for one in others.omitted:
        if counts[one.reason] != one.tests:
            print(f"omitted: {one.reason}: {counts[one.reason]} tests, not {one.tests}", file=sys.stderr)
    for name in unknown:
        print(f"neither listed nor omitted: {name}", file=sys.stderr)
    for name in sorted(listed - set(existing)):
        print(f"not in the binary: {name}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
