"""The logger "forebay": what the library says while it runs, and what this package says."""

from __future__ import annotations

import atexit
import logging
import os

from . import _forebay

log = logging.getLogger("forebay")


def _say(level: int, message: str) -> None:
    log.log(10 * (level + 1), "%s", message)


def start(environment: str | None = os.environ.get("FOREBAY_LOG")) -> None:
    """Take the library's messages; with FOREBAY_LOG=info (or debug, warning) in the environment, also show them on standard error."""
    _forebay.log_to("debug", _say)
    atexit.register(_forebay.log_to, "off", None)
    if not environment:
        return
    level = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "off": logging.CRITICAL + 1}.get(environment.lower())
    if level is None:
        log.warning("FOREBAY_LOG=%s: use debug, info, warning or off", environment)
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("forebay: %(levelname)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False
