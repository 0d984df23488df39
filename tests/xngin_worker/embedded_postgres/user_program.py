"""A process that uses the embedded server: `user_program.py DATA_FOLDER BINARIES_FOLDER UID`, empty for none.

It says in one line of JSON how that went, then answers each line of its input, and ends with it.
"""

import json
import os
import sys
from pathlib import Path

import psycopg

from xngin_worker.embedded_postgres import EmbeddedPostgresError, acquire


def main() -> None:
    data_folder, binaries_folder, uid = sys.argv[1:]
    if uid:
        # Only now: such a user may not be able to reach this interpreter.
        os.setgroups([])
        os.setgid(int(uid))
        os.setuid(int(uid))
    try:
        server = acquire(Path(data_folder), Path(binaries_folder) if binaries_folder else None)
    except EmbeddedPostgresError as error:
        say({"error": str(error)})
        sys.exit(1)
    say({"url": server.url})
    connection: psycopg.Connection | None = None
    for line in sys.stdin:
        match line.rstrip("\n").partition(" "):
            case "sql", _, statement:
                connection = connection or psycopg.connect(server.url, autocommit=True)
                cursor = connection.execute(statement.encode())
                say(cursor.fetchone() if cursor.description else None)
            case "acquire", _, _:
                server = acquire(Path(data_folder))
                connection = None
                say(server.url)
            case "fork", _, _:
                if os.fork() != 0:
                    sys.exit(0)
                say("forked")
            case "end", _, code:
                raise SystemExit(int(code))
            case "fail", _, _:
                raise RuntimeError("as asked")


def say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer, default=str) + "\n")
    sys.stdout.flush()


main()
