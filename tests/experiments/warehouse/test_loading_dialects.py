"""Jobs build their queries at the same moment in many threads: no dialect may still be loading by then."""

import subprocess
import sys

_FIRST_QUERIES = """
import sys
import threading

from experiments.warehouse.dialects import Dialect
from experiments.warehouse.render import text_of
from experiments.warehouse.unnest import sent_rows

loaded = {name for name in sys.modules if name.startswith("sqlglot.dialects.")}
sys.setswitchinterval(1e-6)
start = threading.Barrier(2 * len(Dialect))
texts = {dialect: set() for dialect in Dialect}

def first(dialect):
    start.wait()
    texts[dialect].add(text_of(sent_rows(dialect), dialect))

threads = [threading.Thread(target=first, args=(dialect,)) for dialect in [*Dialect, *Dialect]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted({name for name in sys.modules if name.startswith("sqlglot.dialects.")} - loaded))
for dialect in Dialect:
    assert texts[dialect] == {text_of(sent_rows(dialect), dialect)}, dialect
assert "CAST($1 AS JSON)" in texts[Dialect.POSTGRESQL].pop()
"""


def test_first_queries_of_many_threads_are_right_and_load_no_dialect() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _FIRST_QUERIES], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ran.stdout, ran.stderr, ran.returncode) == ("[]\n", "", 0)
