"""A PostgreSQL server for a checkout without DATABASE_URL, shared by all of its processes.

`users` starts it with the first process and stops it with the last, `server` runs it, `home` says where it lives and
as whom it runs, `binaries` what it is made of, `locks` what all of it trusts in.
"""

from xngin_worker.embedded_postgres.home import EmbeddedPostgresError
from xngin_worker.embedded_postgres.users import Server, acquire

__all__ = ["EmbeddedPostgresError", "Server", "acquire"]
