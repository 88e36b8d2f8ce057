"""Logs as kube-scheduler writes them: klog's text, or JSON, with verbosity by number."""

from __future__ import annotations

import logging
import re
import sys
import time
from typing import Any

import msgspec

from mooring.api.printable import printable

SEVERITY = {
    logging.DEBUG: "I",
    logging.INFO: "I",
    logging.WARNING: "W",
    logging.ERROR: "E",
    logging.CRITICAL: "F",
}

_HEAD = re.compile(r"\n(?=[IWEF]\d{4} )")
"""Where a line would begin like an entry: an API server's message must not add entries to the log."""


def verbose(log: logging.Logger, v: int, message: str, **fields: Any) -> None:
    """Log at klog's verbosity `v`; cheap if that verbosity is disabled."""
    level = logging.INFO - v
    if log.isEnabledFor(level):
        log.log(level, message, extra={"fields": fields}, stacklevel=2)


def failed(log: logging.Logger, message: str, **fields: Any) -> None:
    """Log an error with what it concerns."""
    log.error(message, extra={"fields": fields}, stacklevel=2)


class KlogFormatter(logging.Formatter):
    """`I1115 22:10:00.123456   4711 driver.py:84] "Attempting to schedule pod" pod="default/web"`"""

    def format(self, record: logging.LogRecord) -> str:
        severity = SEVERITY.get(record.levelno, "I" if record.levelno < logging.INFO else "E")
        moment = time.localtime(record.created)
        micros = int(record.created % 1 * 1_000_000)
        head = f"{severity}{time.strftime('%m%d %H:%M:%S', moment)}.{micros:06d} {record.process:7d}"
        fields: dict[str, Any] | None = getattr(record, "fields", None)
        text = record.getMessage()
        if fields is not None:
            text = " ".join([quoted(text), *(f"{name}={quoted(value)}" for name, value in fields.items())])
        line = f"{head} {record.filename}:{record.lineno}] {text}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return _HEAD.sub("\n  ", printable(line))


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the keys of Kubernetes' JSON logs."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "ts": round(record.created * 1000, 4),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno <= logging.INFO:
            entry["v"] = logging.INFO - record.levelno
        entry.update(getattr(record, "fields", {}))
        if record.exc_info:
            entry["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry, enc_hook=str).decode()


def quoted(value: object) -> str:
    """As klog quotes: text in quotation marks on one line, numbers bare."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(str(value)).decode()


def configure(v: int, form: str) -> None:
    """Send the logs of Mooring and of its plugins to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else KlogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("mooring").setLevel(max(1, logging.INFO - v))
