"""kubeconfig files: read, merged as kubectl merges them, and the context picked from them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mooring.api.complaints import malformed
from mooring.api.decode import strip_nulls
from mooring.api.documents import read_documents
from mooring.api.errors import MISSING, MalformedObject, show
from mooring.client.api_errors import CredentialsError
from mooring.client.credentials.identity import content_of

_EXEC_CONFIG = "client.authentication.k8s.io/exec"  # the cluster's extension that is meant for exec plugins
SCHEDULER = "mooring/scheduler"
"""The cluster's extension that says where its scheduler can be asked about its decisions: a URL."""


class _Section(msgspec.Struct, rename="kebab", frozen=True, kw_only=True):
    """A part of a kubeconfig. Its representation shows no values: they may be secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Extension(_Section, frozen=True, kw_only=True):
    name: str
    extension: Any = None


class Cluster(_Section, frozen=True, kw_only=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[Extension] = []

    def exec_config(self) -> Any:
        """Configuration that exec plugins receive about this cluster, if any."""
        return self._extension(_EXEC_CONFIG)

    def scheduler(self) -> str:
        """Where its scheduler can be asked about its decisions, if that is said."""
        extension = self._extension(SCHEDULER)
        return extension if isinstance(extension, str) else ""

    def _extension(self, name: str) -> Any:
        return next((entry.extension for entry in self.extensions if entry.name == name), None)


class ExecEnv(_Section, frozen=True, kw_only=True):
    name: str
    value: str = ""


class Exec(_Section, rename="camel", frozen=True, kw_only=True):
    command: str
    api_version: str = ""
    args: list[str] = []
    env: list[ExecEnv] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(_Section, frozen=True, kw_only=True):
    name: str


class User(_Section, frozen=True, kw_only=True):
    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None


class Context(_Section, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Section, frozen=True, kw_only=True):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(_Section, frozen=True, kw_only=True):
    name: str
    user: User = User()


class _NamedContext(_Section, frozen=True, kw_only=True):
    name: str
    context: Context = Context()


class _File(_Section, frozen=True, kw_only=True):
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []
    current_context: str = ""


Part = TypeVar("Part", Cluster, User, Context)


class Kubeconfig:
    """One or several files together: of things with the same name, the first file's is taken whole."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = list(paths)
        self.clusters: dict[str, tuple[Cluster, Path]] = {}
        self.users: dict[str, tuple[User, Path]] = {}
        self.contexts: dict[str, tuple[Context, Path]] = {}
        self.current_context = ""
        for path in self.paths:
            self._add(_read(path), path)

    def _add(self, file: _File, path: Path) -> None:
        self.current_context = self.current_context or file.current_context
        _merge(self.clusters, ((each.name, each.cluster) for each in file.clusters), path, "clusters")
        _merge(self.users, ((each.name, each.user) for each in file.users), path, "users")
        _merge(self.contexts, ((each.name, each.context) for each in file.contexts), path, "contexts")

    def pick(self, context: str = "") -> Choice:
        """The context of this name, or the current one. Raises CredentialsError."""
        where = ", ".join(map(str, self.paths))
        name = context or self.current_context
        if not name:
            raise CredentialsError(
                f"{where}: current-context: found nothing, expected {_one_of(self.contexts)}"
            )
        if name not in self.contexts:
            source = "--context" if context else "current-context"
            raise CredentialsError(
                f"{where}: {source}: found {show(name)}, expected {_one_of(self.contexts)}"
            )
        chosen, path = self.contexts[name]
        field = f'{path}: contexts["{name}"].context'
        for kind, there in (("cluster", self.clusters), ("user", self.users)):
            reference = getattr(chosen, kind)
            if reference not in there:
                raise CredentialsError(
                    f"{field}.{kind}: found {show(reference or MISSING)}, expected {_one_of(there)}"
                )
        return Choice(chosen, *self.clusters[chosen.cluster], *self.users[chosen.user])


class Choice(msgspec.Struct, frozen=True):
    """What a context stands for; the paths are the files that the parts are from."""

    context: Context
    cluster: Cluster
    cluster_path: Path
    user: User
    user_path: Path

    def cluster_field(self, name: str) -> str:
        """How messages call a field of the cluster."""
        return f'{self.cluster_path}: clusters["{self.context.cluster}"].cluster.{name}'

    def user_field(self, name: str) -> str:
        return f'{self.user_path}: users["{self.context.user}"].user.{name}'


def _one_of(names: dict[str, Any]) -> str:
    return "one of " + ", ".join(map(show, names)) if names else "one, but there is none"


def _merge(
    parts: dict[str, tuple[Part, Path]], named: Iterable[tuple[str, Part]], path: Path, field: str
) -> None:
    own: set[str] = set()
    for name, part in named:
        if name in own:
            raise CredentialsError(f"{path}: {field}: found two called {show(name)}, expected one")
        own.add(name)
        parts.setdefault(name, (part, path))


def _read(path: Path) -> _File:
    try:
        text = content_of(path, "kubeconfig").decode()
    except UnicodeDecodeError:
        raise CredentialsError(f"{path}: found bytes that are not UTF-8, expected a kubeconfig") from None
    trees = list(read_documents(text))
    if not trees:
        return _File()
    tree = trees[0]
    if isinstance(tree, ValueError):
        raise CredentialsError(f"{path}: {tree}")
    if not isinstance(tree, dict) or len(trees) > 1:
        raise CredentialsError(f"{path}: not a single YAML object; expected a kubeconfig")
    if tree.get("kind", "Config") != "Config":
        raise CredentialsError(f"{path}: kind: found {show(tree['kind'])}, expected Config")
    stripped = strip_nulls(tree)
    try:
        return msgspec.convert(stripped, _File)
    except msgspec.ValidationError as error:
        complaint = malformed("Config", stripped, str(error))
    expected = "base64" if "base64" in complaint.expected else complaint.expected
    raise CredentialsError(f"{path}: {complaint.field}: found {_found(complaint)}, expected {expected}")


def _found(complaint: MalformedObject) -> str:
    """What stood there; of users, and of things that may contain some, only of what kind it was."""
    value = complaint.found
    if value is MISSING or not (complaint.field.startswith("users") or isinstance(value, dict | list)):
        return show(value)
    kinds: dict[type, str] = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return kinds.get(type(value), "a number")
