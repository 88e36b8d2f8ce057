"""Warnings about volumes whose files would overwrite each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mooring.sandbox.apiserver.objects import Tree


class _File(NamedTuple):
    path: str
    source: str = ""

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'

    def meets(self, other: _File) -> bool:
        """Whether both are one path, or one is a directory of the other."""
        if not self.path or not other.path:
            return False
        ours, theirs = f"{self.path}/", f"{other.path}/"
        return ours.startswith(theirs) or theirs.startswith(ours)


def overlapping_paths(volumes: Iterable[Tree]) -> Iterator[str]:
    for volume in volumes:
        name = volume["name"]
        for member, word, named_by in (
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ):
            source = volume.get(member)
            if source and source.get("items"):
                kind = f'{word} "{source.get(named_by, "")}"' if named_by else word
                yield from _overlaps(name, kind, [_File(item.get("path", "")) for item in source["items"]])
        projected = volume.get("projected")
        if projected:
            files: list[_File] = []
            for source in projected.get("sources") or ():
                if not source:
                    yield f'volume "{name}" (Projected) has no sources provided'
                files += _projected(source)
            yield from _overlaps(name, "Projected", files)


def _projected(source: Tree) -> Iterator[_File]:
    """Return the files that a source of a projected volume is known to write."""
    for member, kind in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        found = source.get(member) or {}
        word = kind if member == "downwardAPI" else f'{kind} "{found.get("name", "")}"'
        for item in found.get("items") or ():
            yield _File(item.get("path", ""), word)
    token, bundle = source.get("serviceAccountToken"), source.get("clusterTrustBundle")
    if token:
        yield _File(token.get("path", ""), "ServiceAccountToken")
    if bundle:
        name = bundle.get("name", bundle.get("signerName", ""))
        yield _File(bundle.get("path", ""), f'ClusterTrustBundle "{name}"')
    certificate = source.get("podCertificate") or {}
    for member, word in (
        ("certificateChainPath", "chain"),
        ("keyPath", "key"),
        ("credentialBundlePath", "credential bundle"),
    ):
        if certificate.get(member):
            yield _File(certificate[member], f"PodCertificate {word}")


def _overlaps(volume: str, kind: str, files: list[_File]) -> Iterator[str]:
    before: list[_File] = []
    for written in files:
        file = _File(written.path.rstrip("/"), written.source)
        for other in before:
            if file.meets(other):
                yield f'volume "{volume}" ({kind}): overlapping paths: {file} with {other}'
        before.append(file)
