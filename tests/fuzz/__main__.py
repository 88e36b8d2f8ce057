"""Run fuzz targets: `python -m tests.fuzz [TARGET]... --executions N --seed S`."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import click

from tests.fuzz.running import HANG_SECONDS, MEMORY_LIMIT, Report, fuzz
from tests.fuzz.target import CORPUS, TARGETS, Target

MODULES = ("texts", "files", "clients", "servers", "streams", "sandbox", "nodes", "groups", "pages")


def load_targets() -> dict[str, Target]:
    """Import the modules that register targets."""
    for module in MODULES:
        importlib.import_module(f"tests.fuzz.{module}")
    return TARGETS


@click.command()
@click.argument("names", metavar="[TARGET]...", nargs=-1)
@click.option("--executions", default=10_000, show_default=True, help="Executions per target")
@click.option("--seed", default=0, show_default=True, help="Seed of the inputs")
@click.option("--coverage", is_flag=True, help="Let coverage guide the inputs of one target; needs atheris")
@click.option("--list", "listed", is_flag=True, help="List the targets")
def main(names: tuple[str, ...], executions: int, seed: int, coverage: bool, listed: bool) -> None:
    """Fuzz TARGETs, or all of them. Exits with 1 if an input fails; it is kept in tests/fuzz/corpus."""
    if coverage:
        if len(names) != 1:
            raise click.UsageError("--coverage: name one target")
        _with_coverage(names[0], executions, seed)
        return
    targets = load_targets()
    if listed:
        print("\n".join(sorted(targets)))
        return
    unknown = sorted(set(names) - set(targets))
    if unknown:
        raise click.UsageError(
            f"no target {', '.join(unknown)}\nhint: the targets are {', '.join(sorted(targets))}"
        )
    failed = False
    for name in names or targets:
        report = fuzz(targets[name], executions, seed, _Progress(name, executions))
        _print(name, report)
        failed = failed or bool(report.findings)
    sys.exit(1 if failed else 0)


class _Progress:
    """Prints a line every ten seconds."""

    def __init__(self, name: str, executions: int) -> None:
        self._name, self._executions = name, executions
        self._next = time.monotonic() + 10

    def __call__(self, done: int, outcomes: int, findings: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 10
            share = f"{done:,} of {self._executions:,}"
            print(
                f"{self._name}: {share}, {outcomes} outcomes, {findings} findings",
                file=sys.stderr,
                flush=True,
            )


def _print(name: str, report: Report) -> None:
    speed = report.executions / max(report.seconds, 1e-9)
    print(
        f"{name}: {report.executions:,} executions in {report.seconds:.0f} s ({speed:,.0f}/s), "
        f"{report.outcomes} outcomes, {report.growth / 2**20:+.0f} MiB, {len(report.findings)} findings",
        flush=True,
    )
    for finding in report.findings:
        print(f"\n{name}: {finding.error}\n{finding.story}kept as {finding.save()}\n", flush=True)


def _with_coverage(name: str, executions: int, seed: int) -> None:
    """Run one target under atheris: libFuzzer chooses the seeds by coverage, the mutations are ours."""
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        raise click.UsageError("--coverage: atheris is not installed\nhint: pip install atheris") from None
    with atheris.instrument_imports(include=["mooring"]):
        target = load_targets().get(name)
    if target is None:
        raise click.UsageError(f"no target {name}")
    from random import Random

    def mutate(data: bytes, longest: int, number: int) -> bytes:
        return target.mutate(Random(number), data or target.seeds[0], target.words)[:longest]

    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    options = [f"-runs={executions}", f"-seed={seed + 1}", f"-timeout={HANG_SECONDS:.0f}"]
    options += [f"-rss_limit_mb={MEMORY_LIMIT >> 20}", "-max_len=100000", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], *options], target.outcome, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
