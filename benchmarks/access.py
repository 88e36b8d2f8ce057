"""A kubeconfig as aiohttp wants it."""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import yaml


def session_for(kubeconfig: Path, connections: int) -> aiohttp.ClientSession:
    """A session with the server and the credentials of the current context: a token or a certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    return aiohttp.ClientSession(
        cluster["server"],
        headers=headers,
        connector=aiohttp.TCPConnector(ssl=_tls(cluster, user), limit=connections),
        timeout=aiohttp.ClientTimeout(total=None),
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if "certificate-authority-data" in cluster:
        tls.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if "client-certificate" in user:
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            pem.write(base64.b64decode(user["client-key-data"]))
            pem.flush()
            tls.load_cert_chain(pem.name)
    return tls
