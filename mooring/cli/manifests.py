"""A cluster from manifests: read files, make a scheduler, and give it what was read."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import click

from mooring.api.complaints import key_of
from mooring.api.decode import Problem, load_trees, read_trees
from mooring.api.errors import MalformedObject, ObjectError
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.cli.plugins import registry_for
from mooring.client.parallel import Threads
from mooring.config import ConfigError, LoadedConfig, default_config, load
from mooring.core.scheduler import Scheduler
from mooring.extender.calling.make import make_extenders
from mooring.framework.registration import RegistrationError
from mooring.runtime.runners import PluginError
from mooring.sandbox.controllers.first_pods import FirstPods, is_workload, workload_of

SUFFIXES = (".yaml", ".yml", ".json")


class Sink(Protocol):
    """What takes objects: a scheduler, or a cluster around it."""

    def apply(self, obj: KubeObject) -> None: ...


def filename_option(*, required: bool) -> Callable[[Any], Any]:
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        metavar="FILE",
        help="Manifests: a file, a directory, or - for standard input; may be given several times.",
    )


def read_sources(files: Iterable[str]) -> list[tuple[str, str]]:
    """The text and the name of every file."""
    sources = []
    for name in files:
        if name == "-":
            sources.append((sys.stdin.read(), "<stdin>"))
            continue
        path = Path(name)
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
        for each in inside:
            try:
                sources.append((each.read_text(), str(each)))
            except OSError as exc:
                raise click.UsageError(f"{each}: {exc.strerror}") from None
    return sources


def read_manifests(files: Iterable[str]) -> tuple[list[KubeObject], list[str]]:
    """The objects in files, with the pods that controllers would make of them, and what was wrong with the
    others."""
    trees = list(read_trees(read_sources(files)))
    manifests = load_trees(trees)
    made, problems = _pods_of_workloads(trees, manifests.objects)
    if made:
        manifests = load_trees([*trees, *made])
    problems += manifests.problems
    workloads = {(source, tree["kind"], key_of(tree)) for tree, source in trees if _is_workload(tree)}
    for ignored in manifests.ignored:
        if (ignored.source, ignored.kind, ignored.key) not in workloads:
            click.echo(f"ignored: {ignored}", err=True)
    origins = {origin for _, origin in made}
    return manifests.objects, [f"left out: {problem}" for problem in _once(problems, origins)]


def _once(problems: Iterable[Problem], origins: Container[str]) -> Iterator[Problem]:
    """Of pods of one origin the first problem: the others are made of the same template."""
    told: set[str] = set()
    for problem in problems:
        if problem.source not in told:
            yield problem
        if problem.source in origins:
            told.add(problem.source)


def _is_workload(tree: Any) -> bool:
    return isinstance(tree, dict) and is_workload(tree)


def _pods_of_workloads(
    trees: Iterable[tuple[Any, str]], there: Iterable[KubeObject]
) -> tuple[list[tuple[Any, str]], list[Problem]]:
    """What controllers would make, each with where it comes from."""
    first = FirstPods(there)
    made: list[tuple[Any, str]] = []
    problems: list[Problem] = []
    for tree, source in trees:
        if _is_workload(tree):
            try:
                workload = workload_of(tree)
                origin = f"{source}: {workload.kind} {workload.key}"
                made += [(body, origin) for body in first.of(workload)]
            except MalformedObject as error:
                problems.append(Problem(source, error))
    return made, problems


def make_scheduler(
    config_file: str | None, plugins: Iterable[str], *, seed: int = 0, record: bool = False
) -> Scheduler:
    """A scheduler as configured; ends the command where that cannot be. Its extenders are asked, but what
    they bind would be bound in a real cluster: that is left to the plugins."""
    try:
        config = LoadedConfig(default_config()) if config_file is None else load(config_file)
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
        extenders = make_extenders(config, binds=False)
        for extender in extenders:
            click.get_current_context().call_on_close(extender.close)
        return Scheduler(
            config,
            clock=time.time,
            pick=random.Random(seed).randrange,
            registry=registry_for(plugins),
            extenders=extenders,
            record=record,
            parallelize=Threads(config.config.parallelism),
        )
    except (ConfigError, RegistrationError, PluginError) as exc:
        click.echo(str(exc), err=True)
        sys.exit(2)
    except OSError as exc:
        click.echo(f"{config_file}: {exc.strerror}", err=True)
        sys.exit(2)


def apply_all(sink: Sink, objects: Iterable[KubeObject]) -> list[str]:
    """Hand objects over, pods last; those that make no sense are named."""
    complaints = []
    for obj in sorted(objects, key=lambda obj: isinstance(obj, Pod)):
        try:
            sink.apply(obj)
        except ObjectError as exc:
            complaints.append(f"left out: {exc}")
    return complaints
