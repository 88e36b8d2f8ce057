"""Make the extenders of a configuration."""

from __future__ import annotations

import ssl
from pathlib import Path as FilePath
from urllib.parse import urlsplit

from mooring.client.credentials import CredentialsError
from mooring.client.credentials.identity import Proof, content_of
from mooring.client.credentials.trust import Trust, tls_context
from mooring.config import Extender as Settings
from mooring.config import ExtenderTLSConfig, LoadedConfig
from mooring.config.findings import Path, Report, format_path
from mooring.extender.calling.connections import Connections
from mooring.extender.calling.http_extender import HttpExtender
from mooring.extender.calling.originals import Originals
from mooring.extender.calling.rolls import Rolls


def make_extenders(
    loaded: LoadedConfig,
    originals: Originals | None = None,
    *,
    binds: bool = True,
    in_threads: bool = False,
) -> list[HttpExtender]:
    """The extenders of a configuration (see HttpExtender). Raises ConfigError where any of them cannot be."""
    settings = loaded.config.extenders
    originals = Originals(settings) if originals is None else originals
    rolls, report = Rolls(originals), Report(loaded.places)
    made = []
    for index, each in enumerate(settings):
        connections = _connections(each, ("extenders", index), report)
        if connections is not None:
            made.append(HttpExtender(each, connections, originals, rolls, binds=binds, in_threads=in_threads))
    report.raise_if_any()
    return made


def _connections(settings: Settings, path: Path, report: Report) -> Connections | None:
    """How to reach an extender; None where that cannot be, which is reported."""
    tls = settings.tls_config or ExtenderTLSConfig()
    try:
        context = _tls(settings, tls, format_path((*path, "tlsConfig", "caData")))
    except CredentialsError as error:
        report.add((*path, "tlsConfig"), str(error))
        return None
    return Connections(settings.url_prefix, context, tls.server_name)


def _tls(settings: Settings, tls: ExtenderTLSConfig, authority: str) -> ssl.SSLContext | None:
    """The context for https; as in kube-scheduler, enableHTTPS without an authority means that any
    certificate will do. `authority` is the field to be named where that is wrong. Raises CredentialsError."""
    if urlsplit(settings.url_prefix).scheme != "https":
        return None
    authorities = tls.ca_data or (FilePath(tls.ca_file) if tls.ca_file else b"")
    insecure = tls.insecure or (settings.enable_https and not authorities)
    trust = Trust(authorities, insecure, authority)
    certificate = tls.cert_data or content_of(_path(tls.cert_file), "certFile")
    key = tls.key_data or content_of(_path(tls.key_file), "keyFile")
    if bool(certificate) != bool(key):
        there, missing = ("certificate", "key") if certificate else ("key", "certificate")
        raise CredentialsError(f"{there} without its {missing}")
    proof = Proof(certificate=certificate, key=key, field=authority.rpartition(".")[0])
    return tls_context(trust, trust.read(), proof)


def _path(file: str) -> FilePath | bytes:
    return FilePath(file) if file else b""
