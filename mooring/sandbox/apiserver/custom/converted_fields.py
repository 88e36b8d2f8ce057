"""Selectable fields of a kind whose versions a webhook converts."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.resource import Conversion
from mooring.sandbox.apiserver.context.strategy import as_text
from mooring.sandbox.apiserver.objects import Tree, dig


class ConvertedFields:
    """Values of the selectable fields in every version that has some. They are stored with each object, so
    that lists and watches in one version find what was written in another."""

    def __init__(self, definition: Tree, conversion: Conversion) -> None:
        spec = definition["spec"]
        self._conversion = conversion
        self._paths = [
            (f"{spec['group']}/{version['name']}", field["jsonPath"].removeprefix("."))
            for version in spec["versions"]
            for field in version.get("selectableFields") or ()
        ]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{version}:{path}" for version, path in self._paths)

    def aliases(self, api_version: str) -> Mapping[str, str]:
        """Return the fields of a version, as they are among `names`."""
        return {path: f"{version}:{path}" for version, path in self._paths if version == api_version}

    def select(self, obj: Tree) -> tuple[str, ...]:
        versions = {version: self._converted(obj, version) for version, _ in self._paths}
        return tuple(as_text(dig(versions[version], *path.split("."))) for version, path in self._paths)

    def _converted(self, obj: Tree, version: str) -> Tree:
        """Return an object in a version, or without any fields if the webhook fails: a write in the stored
        version does not need it."""
        try:
            return self._conversion.convert([obj], version)[0]
        except ApiError:
            return {}
