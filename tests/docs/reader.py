"""A reader who does what a page says, block by block, in a project of their own beside a real database.

Python runs in one namespace per page, ``file=`` blocks are written into the reader's folder, SQL goes through a
connection of its own as another program's would, and shell commands are real processes.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any
from urllib.parse import urlencode

import psycopg
from django.db import connection

from taskqueue.handlers import registry
from tests.docs.pages import ROOT, Block
from xngin_worker import environment

_COMMAND_SECONDS = 60
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Reader:
    """Use as a context manager around one page, in a test whose transactions are real."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._namespace: dict[str, Any] = {"__name__": "page"}
        self._environment = {
            # What this run was configured with is not what the page says.
            **{name: text for name, text in os.environ.items() if not name.startswith(("XNGIN_", "PG"))},
            "DATABASE_URL": _database_url(),
            "PYTHONPATH": str(folder),
        }
        self._modules: dict[str, ModuleType] = {}
        self._known_types = set(registry.handlers)
        self._sql: psycopg.Connection[Any] | None = None
        self._printed: str | None = None
        self._clean_up: list[Callable[[], object]] = []

    def __enter__(self) -> Reader:
        sys.path.insert(0, str(self._folder))
        self._namespace["clean_up"] = self._clean_up.append
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for clean in reversed(self._clean_up):
            clean()
        if self._sql is not None:
            self._sql.close()
        sys.path.remove(str(self._folder))
        for task_type in set(registry.handlers) - self._known_types:
            registry.remove(task_type)
        for name in self._modules:
            sys.modules.pop(name, None)

    def follow(self, block: Block) -> None:
        """Do what the block says; raises ``AssertionError`` with the place on the page when it goes wrong."""
        try:
            if block.language in ("text", "json") and self._printed is not None and not block.options:
                printed, self._printed = self._printed, None
                _compare(block, printed)
                return
            self._printed = self._execute(block)
        except Exception as error:  # noqa: BLE001 - whatever an example raises, the place on the page is told
            raise AssertionError(f"{block}: {block.first_line}\n{''.join(traceback.format_exception(error))}") from None

    def _execute(self, block: Block) -> str:
        match block.language:
            case "python" if block.code.lstrip().startswith(">>>"):
                return self._doctest(block)
            case "python" if "file" in block.options:
                return self._write(block)
            case "python":
                return self._python(block)
            case "sql":
                return self._query(block)
            case "sh":
                return self._shell(block)
            case "env" if block.hidden:
                self._environment |= _assignments(block)
                return ""
            case "env":
                environment.read(_assignments(block), data_folder=self._folder)
                return ""
            case _:
                raise AssertionError(f"nobody knows how to follow a block in {block.language or 'no language'!r}")

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(_compiled(block), self._namespace)  # noqa: S102 - executing the pages is what this is for
        return printed.getvalue()

    def _doctest(self, block: Block) -> str:
        examples = doctest.DocTestParser().get_doctest(
            block.code, self._namespace, str(block), str(block.page), block.line - 1
        )
        told: list[str] = []
        runner = doctest.DocTestRunner(optionflags=_OPTIONS, verbose=False)
        runner.run(examples, out=told.append, clear_globs=False)
        # The runner works on a copy of the names.
        self._namespace.update(examples.globs)
        if runner.failures:
            raise AssertionError("".join(told))
        return ""

    def _write(self, block: Block) -> str:
        """Add the block to its file. Handlers are known at once, as they are after a start."""
        path = self._folder / block.options["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        with path.open("a") as file:
            file.write(block.code + "\n")
        if path.name != "settings.py":
            name = ".".join(path.relative_to(self._folder).with_suffix("").parts)
            if name not in self._modules:
                self._modules[name] = _empty_module(name, path)
            exec(_compiled(block), self._modules[name].__dict__)  # noqa: S102 - see above
        return ""

    def _query(self, block: Block) -> str:
        if self._sql is None:
            self._sql = psycopg.connect(self._environment["DATABASE_URL"], autocommit=True)
        shown = ""
        for statement in filter(str.strip, block.code.split(";")):
            cursor = self._sql.execute(statement.encode())
            shown += _table(cursor) if cursor.description else ""
        return shown

    def _shell(self, block: Block) -> str:
        if "serve" in block.options:
            return self._serve(block)
        done = subprocess.run(
            ["sh", "-euc", block.code],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        expected = int(block.options.get("exit", "0"))
        if done.returncode != expected:
            raise AssertionError(f"ended with {done.returncode} instead of {expected}:\n{done.stdout}{done.stderr}")
        return done.stderr if "stderr" in block.options else done.stdout

    def _serve(self, block: Block) -> str:
        """Start it, wait for the word given as ``serve=WORD``, stop it as an operator does; it must end with 0."""
        word = block.options["serve"]
        process = subprocess.Popen(
            ["sh", "-euc", f"exec {block.code}"],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout:
            timer = _timer(process)
            lines = []
            for line in process.stdout:
                lines.append(line)
                if word in line:
                    process.send_signal(signal.SIGTERM)
                    break
            lines += process.stdout.readlines()
            code = process.wait()
            timer()
        if code != 0 or not any(word in line for line in lines):
            raise AssertionError(f"ended with {code}, and was to say {word!r} and end with 0:\n{''.join(lines)}")
        return ""


def _timer(process: subprocess.Popen[str]) -> Callable[[], None]:
    timer = threading.Timer(_COMMAND_SECONDS, process.kill)
    timer.start()

    def stop() -> None:
        timer.cancel()
        timer.join()

    return stop


def _assignments(block: Block) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.code.splitlines())
    return {name: value for name, _, value in pairs}


def _compiled(block: Block) -> Any:
    # Empty lines in front make a traceback show the line of the page.
    return compile("\n" * (block.line - 1) + block.code, str(block.page), "exec")


def _empty_module(name: str, path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    return module


def _table(cursor: psycopg.Cursor[Any]) -> str:
    names = [column.name for column in cursor.description or ()]
    rows = [[_shown(value) for value in row] for row in cursor]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [names, ["-" * width for width in widths], *rows]
    return "".join(" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines)


def _shown(value: object) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _compare(block: Block, printed: str) -> None:
    checker = doctest.OutputChecker()
    example = doctest.Example("", block.code)
    if not checker.check_output(block.code, printed, _OPTIONS):
        raise AssertionError(checker.output_difference(example, printed, _OPTIONS))


def _database_url() -> str:
    parameters = connection.get_connection_params()
    of_python = {"dbname", "cursor_factory", "context", "prepare_threshold", "client_encoding"}
    given = {name: value for name, value in parameters.items() if name not in of_python and value}
    return f"postgresql:///{parameters['dbname']}?{urlencode(given)}"
