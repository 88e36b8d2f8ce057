"""What containers run: their command line, or that of their image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.sandbox.programs.images import PLAIN_IMAGES, find_image, image_name
from mooring.sandbox.programs.specs import ContainerSpec

SHELL_IMAGES: Final = PLAIN_IMAGES - {"agnhost"}
"""Images that run a shell unless a container says otherwise."""

_SHELLS: Final = frozenset(("sh", "bash", "ash", "dash"))


def command_line(spec: ContainerSpec) -> list[str]:
    """Return what a container runs; nothing if only its image defines it. The shell of an image counts if the
    container has an input: without one it would end at once, which is not what the sandbox is used for."""
    own = find_image(spec.image).command
    if own and not spec.command:
        return [own[0], *(spec.args or own[1:])]
    words = [*spec.command, *spec.args]
    return words or (["sh"] if spec.stdin and image_name(spec.image) in SHELL_IMAGES else [])


def is_shell(command: Sequence[str]) -> bool:
    """Whether a command is an interactive shell."""
    options = [word for word in command[1:] if word not in ("-i", "-l", "--login")]
    return command[0].rpartition("/")[2] in _SHELLS and not options


def runs_shell(spec: ContainerSpec) -> bool:
    """Whether the program of a container is an interactive shell."""
    words = command_line(spec)
    return bool(words) and is_shell(words)
