"""The environment variables of a container, as the kubelet sets them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.workloads import Service
from mooring.sandbox.programs.env_files import EnvFileError, read_key
from mooring.sandbox.programs.errors import UnknownProgramError
from mooring.sandbox.programs.sources import Data, Sources
from mooring.sandbox.programs.specs import ContainerSpec, EnvVarSource, FileKeyRef, KeyRef

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ANY: Final = "*"
ANY_SERVICE: Final = "*_SERVICE_*"
"""Names that stand for variables that may be set, to values that are not known."""
LONGEST: Final = 128 * 1024  # characters of a variable or an argument, as on Linux
MOST: Final = 2 * 1024 * 1024  # characters of all variables
_SERVICE: Final = re.compile(r"\w+_(SERVICE|PORT)(_\w+)?")
_REFERENCE: Final = re.compile(r"\$(\$|\(([A-Za-z_.-][\w.-]*)\))")


def read_environment(spec: ContainerSpec, sources: Sources) -> dict[str, str | None]:
    """Return the variables of a container; None where only a real container has the value. There may be more
    if `may_be_set` says so."""
    variables: dict[str, str | None] = {
        "PATH": PATH,
        "HOSTNAME": sources.hostname or sources.metadata.name,
        "HOME": "/root",
    }
    if sources.services is None:
        variables[ANY_SERVICE] = None
    else:
        variables |= sources.services
    for source in spec.env_from:
        for ref, data in (
            (source.config_map_ref, sources.config_maps),
            (source.secret_ref, sources.secrets),
        ):
            if ref is not None and data is None:
                variables[ANY] = None
            elif ref is not None and data is not None:
                values = data.get(ref.name) or {}
                variables |= {source.prefix + key: value for key, value in values.items()}
    left = MOST
    for one in spec.env:
        if one.value_from is None:
            try:
                value = substitute(one.value, variables) if left > 0 else None
                variables[one.name] = value
                left -= len(value or "")
            except UnknownProgramError:
                variables[one.name] = None
        else:
            value, is_set = _value_from(one.value_from, spec, sources)
            if is_set:
                variables[one.name] = value
    return variables


def may_be_set(name: str, variables: Mapping[str, str | None]) -> bool:
    """Whether a variable that is not among these may have a value."""
    return ANY in variables or (ANY_SERVICE in variables and _SERVICE.fullmatch(name) is not None)


def _value_from(source: EnvVarSource, spec: ContainerSpec, sources: Sources) -> tuple[str | None, bool]:
    """Return the value of a variable, and whether it is set at all."""
    if source.field_ref is not None:
        return sources.read_field(source.field_ref), True
    if source.resource_field_ref is not None:
        return sources.read_resource(source.resource_field_ref, spec), True
    if source.config_map_key_ref is not None:
        return _key(source.config_map_key_ref, sources.config_maps)
    if source.secret_key_ref is not None:
        return _key(source.secret_key_ref, sources.secrets)
    if source.file_key_ref is not None and sources.env_files is not None:
        value = _file_key(source.file_key_ref, sources)
        return value, bool(value)
    return None, True


def _file_key(ref: FileKeyRef, sources: Sources) -> str | None:
    """Return the value that a file has for a key, "" if it has none; None if it cannot be read."""
    text = (sources.env_files or {}).get((ref.volume_name, ref.path))
    try:
        return None if text is None else read_key(text, ref.key)
    except EnvFileError:
        return None


def missing_file_key(spec: ContainerSpec, sources: Sources) -> str:
    """Return what a container lacks of the files that its variables come from, in kubelet's words, or ""."""
    for ref in spec.file_keys:
        value = _file_key(ref, sources)
        if value is None:
            return "couldn't parse env file"
        if not value and not ref.optional:
            folder = f"/var/lib/kubelet/pods/{sources.metadata.uid}/volumes/kubernetes.io~empty-dir"
            return (
                f'environment variable key "{ref.key}" not found in file '
                f'"{folder}/{ref.volume_name}/{ref.path}"'
            )
    return ""


def _key(ref: KeyRef, data: Mapping[str, Data | None] | None) -> tuple[str | None, bool]:
    if data is None:
        return None, True
    values = data.get(ref.name) or {}
    return values.get(ref.key), ref.key in values


def substitute(text: str, variables: Mapping[str, str | None]) -> str:
    """Replace `$(NAME)` by the variable, as the kubelet does before it starts a container. Raises
    UnknownProgramError for a variable whose value is not known, and for too long a text."""
    length = len(text)

    def value(match: re.Match[str]) -> str:
        nonlocal length
        if match.group(1) == "$":
            return "$"
        name = match.group(2)
        value = variables.get(name, match.group())
        if value is None or (name not in variables and may_be_set(name, variables)):
            raise UnknownProgramError(match.group())
        length += len(value)
        if length > LONGEST:
            raise UnknownProgramError("too long")
        return value

    return _REFERENCE.sub(value, text) if "$" in text else text


def service_variables(services: Iterable[Service]) -> dict[str, str]:
    """Return the variables by which containers find Services: host, ports, and those of Docker's links."""
    variables = {}
    for service in services:
        address, ports = service.spec.cluster_ip, service.spec.ports
        if not address or address == "None" or not ports:
            continue
        host = f"[{address}]" if ":" in address else address
        prefix = service.name.upper().replace("-", "_")
        variables[f"{prefix}_SERVICE_HOST"] = address
        variables[f"{prefix}_SERVICE_PORT"] = str(ports[0].port)
        variables |= {
            f"{prefix}_SERVICE_PORT_{port.name.upper().replace('-', '_')}": str(port.port)
            for port in ports
            if port.name
        }
        for at, port in enumerate(ports):
            protocol = port.protocol or "TCP"
            url = f"{protocol.lower()}://{host}:{port.port}"
            link = f"{prefix}_PORT_{port.port}_{protocol.upper()}"
            if at == 0:
                variables[f"{prefix}_PORT"] = url
            variables |= {link: url, f"{link}_PROTO": protocol.lower()}
            variables |= {f"{link}_PORT": str(port.port), f"{link}_ADDR": address}
    return variables
