"""From `extenders` of a configuration to extenders that can be asked."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from mooring.cluster.credentials import CredentialsError
from mooring.cluster.credentials.identity import Proof, content_of
from mooring.cluster.credentials.trust import Trust, tls_context
from mooring.config import Extender as Settings
from mooring.config import ExtenderTLSConfig
from mooring.config.findings import ConfigError, Finding
from mooring.extender.calling.connections import Connections
from mooring.extender.calling.extender import HttpExtender, without_password
from mooring.extender.calling.originals import Originals
from mooring.extender.calling.rolls import Rolls


def make_extenders(
    settings: Iterable[Settings],
    originals: Originals | None = None,
    *,
    binds: bool = True,
    in_threads: bool = False,
) -> list[HttpExtender]:
    """The extenders of a configuration (see HttpExtender). Raises ConfigError for those that cannot be."""
    settings = list(settings)
    originals = Originals(settings) if originals is None else originals
    rolls = Rolls(originals)
    made = []
    for index, each in enumerate(settings):
        path = f"extenders[{index}]"
        _check_url(each.url_prefix, f"{path}.urlPrefix")
        _check_verbs(each, path)
        tls = each.tls_config or ExtenderTLSConfig()
        context = _tls(each, tls, f"{path}.tlsConfig")
        connections = Connections(each.url_prefix, context, tls.server_name)
        made.append(HttpExtender(each, connections, originals, rolls, binds=binds, in_threads=in_threads))
    return made


def _check_url(url: str, field: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or any(character <= " " for character in url):
        found = without_password(url) if good else url
        message = f'found "{found}", expected http://HOST[:PORT][/PATH] or https://…'
        raise ConfigError([Finding(message, field)])


def _check_verbs(settings: Settings, path: str) -> None:
    for field in ("filter", "prioritize", "preempt", "bind"):
        verb: str = getattr(settings, f"{field}_verb")
        if not verb.isascii() or any(character <= " " for character in verb):
            message = f'found "{verb}", expected what can stand at the end of a URL'
            raise ConfigError([Finding(message, f"{path}.{field}Verb")])


def _tls(settings: Settings, tls: ExtenderTLSConfig, field: str) -> ssl.SSLContext | None:
    """The context for https; as in kube-scheduler, enableHTTPS without an authority means that any
    certificate will do."""
    if urlsplit(settings.url_prefix).scheme != "https":
        return None
    authorities = tls.ca_data or (Path(tls.ca_file) if tls.ca_file else b"")
    insecure = tls.insecure or (settings.enable_https and not authorities)
    trust = Trust(authorities, insecure, f"{field}.caData")
    try:
        certificate = tls.cert_data or content_of(_path(tls.cert_file), "certFile")
        key = tls.key_data or content_of(_path(tls.key_file), "keyFile")
        proof = Proof(certificate=certificate, key=key, field=field)
        if bool(certificate) != bool(key):
            there, missing = ("certificate", "key") if certificate else ("key", "certificate")
            raise CredentialsError(f"found a {there} without its {missing}, expected both")
        return tls_context(trust, trust.read(), proof)
    except CredentialsError as error:
        raise ConfigError([Finding(str(error), field)]) from None


def _path(file: str) -> Path | bytes:
    return Path(file) if file else b""
