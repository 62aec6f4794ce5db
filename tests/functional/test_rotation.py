"""Real rotation: logrotate in its usual configurations and Python's own handlers, beside a busy writer.

The daemon is killed at random moments. Every line that stands in any file afterwards is a row, every row
is a line that was written, and none is there twice. Only copytruncate itself may destroy lines between
its copy and its truncation, before anybody could read them.
"""

from __future__ import annotations

import gzip
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon import Daemon, daemon, wait_until

LINES_PER_S = 2000
SECONDS = 6.0

WRITER = f"""
import os, signal, sys, time
path, stop, ack = sys.argv[1:4]
opened = open(path, "a", buffering=1)
def reopen(*_):
    global opened
    opened.close()
    opened = open(path, "a", buffering=1)
    open(ack, "w").close()
signal.signal(signal.SIGHUP, reopen)
number, began = 0, time.monotonic()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
while not os.path.exists(stop):
    for _ in range({LINES_PER_S // 50}):
        number += 1
        opened.write(f"{{number:08d}} GET /index.html 200\\n")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    time.sleep(max(0, began + number / {LINES_PER_S} - time.monotonic()))
print(number)
"""

HANDLER = f"""
import logging, logging.handlers as handlers, os, sys, time
path, stop, kind = sys.argv[1:4]
if kind == "size":
    handler = handlers.RotatingFileHandler(path, maxBytes=60_000, backupCount=50)
else:
    handler = handlers.TimedRotatingFileHandler(path, when="S", interval=1, backupCount=50)
handler.setFormatter(logging.Formatter("%(message)s"))
log = logging.getLogger("app")
log.addHandler(handler)
number, began = 0, time.monotonic()
while not os.path.exists(stop):
    number += 1
    log.warning("%08d GET /index.html 200", number)
    time.sleep(max(0, began + number / {LINES_PER_S} - time.monotonic()))
print(number)
"""

SOURCE = """
[source.app]
paths = ["logs/app.log*"]
format = "lines"
settle_s = 0.3
"""

# What is written between gzip's reading and the reopening would be destroyed, so logrotate waits for it.
REOPEN = "postrotate\n  rm -f {ack}; kill -HUP {pid}; until [ -e {ack} ]; do sleep 0.01; done\nendscript"
LOGROTATE = {
    "rename and create": "create\nnodelaycompress\n{reopen}",
    "copytruncate": "copytruncate",
    "dateext": "dateext\ndateformat -%Y%m%d-%s\ncreate\n{reopen}",
    "compress": "compress\ncreate\n{reopen}",
    "delaycompress": "compress\ndelaycompress\ncreate\n{reopen}",
}


@contextmanager
def writing(script: str, *words: str, stop: Path) -> Iterator[subprocess.Popen[str]]:
    """Hold a writing process; it ends when `stop` exists."""
    process = subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        stop.touch()
        process.wait(30)


def harass(tail: Daemon, seconds: float, every: float, rotate: object = None) -> None:
    """Rotate every so often, and kill and restart the daemon at random moments meanwhile."""
    dice = random.Random(7)
    end = time.monotonic() + seconds
    rotate_at = time.monotonic() + every
    kill_at = time.monotonic() + dice.uniform(0.5, 1.5)
    while time.monotonic() < end:
        now = time.monotonic()
        if callable(rotate) and now >= rotate_at:
            rotate_at = now + every
            rotate()
        if now >= kill_at:
            tail.kill()
            kill_at = now + dice.uniform(0.7, 2.0)
            tail.start()
        time.sleep(0.01)


def on_disk(logs: Path) -> set[int]:
    """Return the numbers of all lines that stand in some file."""
    found: set[int] = set()
    for path in logs.iterdir():
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found.update(int(line[:8]) for line in data.splitlines() if line)
    return found


def collected(tail: Daemon) -> list[int]:
    """Return the numbers of all rows."""
    return sorted(int(row[0][:8]) for row in tail.sql("SELECT line FROM app"))


def settled(tail: Daemon, logs: Path) -> bool:
    """Return whether everything on disk has been collected."""
    return on_disk(logs) <= set(collected(tail))


@pytest.fixture
def tail(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon for logs/, not started."""
    (tmp_path / "logs").mkdir()
    with daemon(tmp_path, workers=1, idle_release_s=2) as one:
        one.config(SOURCE)
        yield one


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", list(LOGROTATE))
def test_logrotate(kind: str, tail: Daemon, tmp_path: Path) -> None:
    """Rows = lines written, none twice."""
    logrotate = shutil.which("logrotate", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if logrotate is None:
        pytest.skip("logrotate is not installed")
    logs, stop = tmp_path / "logs", tmp_path / "stop"
    ack = tmp_path / "reopened"
    with writing(WRITER, str(logs / "app.log"), str(stop), str(ack), stop=stop) as writer:
        wait_until((logs / "app.log").exists)
        config = tmp_path / "rotate.conf"
        body = LOGROTATE[kind].format(reopen=REOPEN.format(pid=writer.pid, ack=ack))
        config.write_text(f"{logs}/app.log {{\nrotate 99\nsu root root\n{body}\n}}\n")
        config.chmod(0o644)

        def rotate() -> None:
            state = str(tmp_path / "state")
            subprocess.run([str(logrotate), "-f", "-s", state, str(config)], check=True, capture_output=True)

        tail.start()
        harass(tail, SECONDS, 1.1, rotate)
        stop.touch()
        written = int(writer.communicate(timeout=30)[0])
    wait_until(lambda: settled(tail, logs), what="every line on disk in the table")
    tail.stop()
    rows = collected(tail)
    assert len(rows) == len(set(rows))
    assert set(rows) <= set(range(1, written + 1))
    if kind != "copytruncate":
        assert rows == list(range(1, written + 1))
        assert "lost_bytes" not in tail.kinds()
    else:
        missing = set(range(1, written + 1)) - set(rows)
        lost = tail.sql("SELECT sum(json_extract(detail, '$.bytes')) FROM file_event WHERE kind = 'lost_bytes'")
        assert len(missing) * 29 >= (lost[0][0] or 0)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["size", "time"])
def test_pythons_rotating_handlers(kind: str, tail: Daemon, tmp_path: Path) -> None:
    """Rows = lines written, none twice."""
    logs, stop = tmp_path / "logs", tmp_path / "stop"
    with writing(HANDLER, str(logs / "app.log"), str(stop), kind, stop=stop) as writer:
        tail.start()
        harass(tail, SECONDS, 1.0)
        stop.touch()
        written = int(writer.communicate(timeout=30)[0])
    wait_until(lambda: settled(tail, logs), what="every line on disk in the table")
    tail.stop()
    assert collected(tail) == list(range(1, written + 1))
    assert "lost_bytes" not in tail.kinds()
