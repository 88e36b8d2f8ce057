"""Pulling images: nodes have every image, except those that cannot be pulled."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, NamedTuple

from mooring.sandbox.programs.specs import ContainerSpec, VolumeSpec

MISSING_TAGS: Final = frozenset(("404", "nonexistent", "non-existent", "does-not-exist"))
_MISSING_NAMES: Final = ("does-not-exist", "doesnt-exist")
"""How names of images end that no registry has."""
NEVER: Final = "Never"
_MOST_PATH: Final = 255
_DOCKER: Final = "docker.io"
_LABEL: Final = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


class PullError(NamedTuple):
    """Why a container has no image: the reason that it waits for, and the event that says so. Only pulls are
    tried less and less often."""

    image: str
    reason: str
    message: str
    event: str
    is_pull: bool = False


def find_pull_error(image: str, policy: str, patterns: Collection[str] = ()) -> PullError | None:
    """Return why a node cannot provide an image, in kubelet's words. Patterns are those of the shell."""
    if problem := _name_problem(image):
        message = (
            f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {problem}'
        )
        return PullError(image, "InvalidImageName", message, "InspectFailed")
    if not is_missing(image, patterns):
        return None
    if policy == NEVER:
        message = f'Container image "{image}" is not present with pull policy of Never'
        return PullError(image, "ErrImageNeverPull", message, "ErrImageNeverPull")
    name = full_name(image)
    why = f"{name}: not found"
    message = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {why}'
    message = f"rpc error: code = NotFound desc = {message}"
    return PullError(image, "ErrImagePull", message, "Failed", is_pull=True)


def find_first_pull_error(
    image: str, spec: ContainerSpec | None, volumes: Iterable[VolumeSpec], patterns: Collection[str]
) -> PullError | None:
    """Return why a node cannot provide an image that a container needs: of a volume that it mounts, or its
    own."""
    if spec is None:
        return find_pull_error(image, "", patterns)
    for volume in volumes:
        if volume.image is not None and any(one.name == volume.name for one in spec.volume_mounts):
            error = find_pull_error(volume.image.reference, volume.image.pull_policy, patterns)
            if error is not None:
                return error
    return find_pull_error(image, spec.image_pull_policy, patterns)


def is_missing(image: str, patterns: Collection[str] = ()) -> bool:
    """Whether pulling the image fails: by a shell pattern, by its tag or the end of its name, or because its
    registry begins with "invalid"."""
    name = image.partition("@")[0]
    return (
        name.rpartition("/")[2].partition(":")[2] in MISSING_TAGS
        or name.startswith("invalid")
        or name.endswith(_MISSING_NAMES)
        or any(fnmatchcase(image, pattern) for pattern in patterns)
    )


def full_name(image: str) -> str:
    """Return an image's name with the registry and the tag that it has by default."""
    registry, path = _split(image)
    tag = "" if ":" in path or "@" in path else ":latest"
    return f"{registry}/{path}{tag}"


def _split(image: str) -> tuple[str, str]:
    """Return the registry and the rest of an image's name."""
    first, slash, rest = image.partition("/")
    is_registry = slash and (first == "localhost" or "." in first or ":" in first or first.lower() != first)
    registry, path = (first, rest) if is_registry else (_DOCKER, image)
    registry = _DOCKER if registry == "index.docker.io" else registry
    return registry, f"library/{path}" if registry == _DOCKER and "/" not in path else path


@lru_cache(1024)
def _name_problem(image: str) -> str:
    """Return why an image's name is invalid, or ""."""
    if re.fullmatch("[0-9a-f]{64}", image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    if not image:
        return ""  # pods that no API server has validated
    registry, path = _split(image)
    repository = path.partition(":")[0]
    if repository.lower() != repository:
        return f"invalid reference format: repository name ({repository}) must be lowercase"
    match = _IMAGE.fullmatch(f"{registry}/{path}")
    if match is None:
        return "invalid reference format"
    if len(match["path"]) > _MOST_PATH:
        return f"repository name must not be more than {_MOST_PATH} characters"
    return ""
