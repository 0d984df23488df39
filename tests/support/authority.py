"""A certificate authority that only this test run knows."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, kw_only=True)
class Authority:
    ca: trustme.CA
    bundle: Path

    @classmethod
    def create(cls, folder: Path) -> Authority:
        ca = trustme.CA()
        bundle = folder / "authority.pem"
        ca.cert_pem.write_to_path(bundle)
        return cls(ca=ca, bundle=bundle)

    def server_context(self, *names: str) -> ssl.SSLContext:
        """What a server needs to be `names` (host names or addresses) in the eyes of who trusts this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context
