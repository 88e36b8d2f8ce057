"""What a container does: decided by its command line, or by its image where that is a well-known server."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from mooring.api.meta import ObjectMeta
from mooring.sandbox.programs.shell import ExitError, ForeverError, Shell, UnknownProgramError
from mooring.sandbox.programs.specs import ContainerSpec, EnvVar

SERVERS: Final = frozenset(
    ("pause", "nginx", "httpd", "redis", "valkey", "memcached", "postgres", "mysql", "mariadb", "mongo",
     "rabbitmq", "haproxy", "traefik", "caddy", "registry", "grafana", "prometheus", "etcd")
)  # fmt: skip
"""Images that serve until they are stopped, by the last part of their names."""

MISSING_TAGS: Final = frozenset(("404", "nonexistent", "non-existent", "does-not-exist"))
MOST_MESSAGE: Final = 4096
_REFERENCE: Final = re.compile(r"\$(\$|\(([A-Za-z_.-][\w.-]*)\))")
_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class Outcome(NamedTuple):
    """One run of a container. `run_time` is None where it does not end by itself; `output` has the seconds
    from the start to each text."""

    run_time: float | None
    exit_code: int = 0
    output: tuple[tuple[float, str], ...] = ()
    message: str = ""


def run_program(
    spec: ContainerSpec, metadata: ObjectMeta, files: dict[str, str], started: float | None = None
) -> Outcome | None:
    """Return what the container does, or None where that is not known. `files` holds what the containers of
    the pod have written; this run may add to it. `started` is when the run began."""
    words = [*spec.command, *spec.args]
    if not words:
        return Outcome(None) if image_name(spec.image) in SERVERS else None
    if not spec.command and image_name(spec.image) == "agnhost":
        return Outcome(None) if words[0] == "pause" else None
    variables = read_environment(spec.env, metadata)
    files.pop(spec.termination_message_path, None)
    shell = Shell(variables, files, started)
    run_time: float | None
    try:
        code = shell.command([substitute(word, variables) for word in words])
        run_time = shell.seconds
    except ExitError as ended:
        code, run_time = ended.code, shell.seconds
    except ForeverError:
        code, run_time = 0, None
    except (UnknownProgramError, RecursionError):
        return None
    output = tuple(shell.output)
    message = files.get(spec.termination_message_path, "")
    if not message and code and spec.termination_message_policy == "FallbackToLogsOnError":
        message = "".join(text for _, text in output)[-2048:]
    return Outcome(run_time, code, output, message[:MOST_MESSAGE])


def image_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def is_missing(image: str, patterns: Collection[str] = ()) -> bool:
    """Whether pulling the image fails: by a shell pattern, by its tag, or because its registry begins with
    "invalid"."""
    name = image.partition("@")[0]
    return (
        name.rpartition("/")[2].partition(":")[2] in MISSING_TAGS
        or name.startswith("invalid")
        or any(fnmatchcase(image, pattern) for pattern in patterns)
    )


def read_environment(env: list[EnvVar], metadata: ObjectMeta) -> dict[str, str | None]:
    """Return the variables of a container; None where only a real container has the value."""
    variables: dict[str, str | None] = {"HOSTNAME": metadata.name, "RANDOM": None}
    for one in env:
        if one.value_from is None:
            try:
                variables[one.name] = substitute(one.value, variables)
            except UnknownProgramError:
                variables[one.name] = None
        elif one.value_from.field_ref is not None:
            variables[one.name] = _field(one.value_from.field_ref.field_path, metadata)
        else:
            variables[one.name] = None
    return variables


def _field(path: str, metadata: ObjectMeta) -> str | None:
    plain = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
    }
    if path in plain:
        return plain[path]
    match = _FIELD.fullmatch(path)
    if match is None:
        return None
    values = metadata.labels if match.group(1) == "labels" else metadata.annotations
    return values.get(match.group(2), "")


def substitute(text: str, variables: Mapping[str, str | None]) -> str:
    """Replace `$(NAME)` by the variable, as the kubelet does before it starts a container. Raises
    UnknownProgramError for a variable whose value is not known."""

    def value(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        value = variables.get(match.group(2), match.group())
        if value is None:
            raise UnknownProgramError(match.group())
        return value

    return _REFERENCE.sub(value, text) if "$" in text else text
