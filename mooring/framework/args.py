"""The base of plugin arguments: what `pluginConfig[].args` decodes into."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec


class Problem(NamedTuple):
    """One thing wrong with a plugin's arguments.

    `field` is the path below `args` ("scoringStrategy.resources[0].weight"; "" for the whole).
    `value` is the offending value, or None where there is none to show.
    """

    field: str
    message: str
    value: object = None


class Args(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Subclass it with typed fields; names are camelCase on the wire, unknown fields are errors.

    A field whose wire name is not camelCase is declared with `msgspec.field(name="favorite_color")`.
    """

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong beyond the types; override it to validate values."""
        yield from ()
