"""Wake-ups from the operating system: what changed, what came and went, and what happens when there are too many."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.events import FileModifiedEvent
from watchdog.observers.inotify_c import InotifyFD

from filecollect.files import watch as module
from filecollect.files.finder import roots
from filecollect.files.watch import Watch


@pytest.fixture
def watch() -> Iterator[Watch]:
    """A started watch."""
    one = Watch()
    one.start()
    yield one
    one.stop()


def told(watch: Watch) -> tuple[set[str], bool]:
    """Wait until something is told and return it."""
    ready, _, _ = select.select([watch.fileno()], [], [], 20)
    assert ready
    return watch.take()


def until(watch: Watch, path: Path) -> None:
    """Wait until a path is told as modified."""
    seen: set[str] = set()
    while str(path) not in seen:
        seen |= told(watch)[0]


def test_a_modified_file_is_told_by_its_path(watch: Watch, tmp_path: Path) -> None:
    """And files that come are told as a change of the directory."""
    watch.follow([(str(tmp_path), False)])
    (tmp_path / "a.log").write_text("1\n")
    structure = False
    while not structure:
        structure = told(watch)[1]
    with (tmp_path / "a.log").open("a") as file:
        file.write("2\n")
    until(watch, tmp_path / "a.log")
    assert watch.complete


def test_our_own_reading_tells_nothing(watch: Watch, tmp_path: Path) -> None:
    """Opening and closing a file for reading is no news."""
    path = tmp_path / "a.log"
    path.write_text("1\n")
    watch.follow([(str(tmp_path), False)])
    path.read_text()
    (tmp_path / "b.log").write_text("2\n")
    until(watch, tmp_path / "b.log")
    assert watch.take()[0] <= {str(tmp_path / "b.log")}


def test_a_directory_that_comes_back_is_watched_again(watch: Watch, tmp_path: Path) -> None:
    """The watch is re-armed at the next scan."""
    place = tmp_path / "logs"
    watch.follow([(str(place), False)])
    place.mkdir()
    watch.follow([(str(place), False)])
    (place / "a.log").write_text("1\n")
    until(watch, place / "a.log")
    place.rename(tmp_path / "old")
    place.mkdir()
    watch.follow([(str(place), False)])
    (place / "b.log").write_text("1\n")
    until(watch, place / "b.log")


def test_a_watch_limit_is_told_and_leaves_the_rest_to_scans(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENOSPC is what the kernel says when there are too many watches."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(InotifyFD, "add_callback", refuse)
    watch.follow([(str(tmp_path), False)])
    assert (watch.refused, watch.complete) == ("inotify watch limit reached", False)


def test_in_a_storm_modifications_are_not_asked_for(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost more than looking; files that come are told all the same."""
    monkeypatch.setattr(module, "STORM_EVENTS_PER_S", 0)
    watch._counted_since -= 2
    watch.on_any_event(FileModifiedEvent(os.fsencode(tmp_path / "a.log")))
    assert (watch.storm, watch.complete) == (True, False)
    watch.follow([(str(tmp_path), False)])
    watch.take()
    (tmp_path / "b.log").write_text("1\n")
    assert told(watch) == (set(), True)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("logs", ("logs", True)),
        ("logs/*.log", ("logs", False)),
        ("logs/**/*.log", ("logs", True)),
        ("logs/*/x.log", ("logs", True)),
        ("logs/a.log", ("logs", False)),
        ("logs/new.log", ("logs", False)),
    ],
)
def test_the_directories_of_a_pattern(pattern: str, expected: tuple[str, bool], tmp_path: Path) -> None:
    """Those in which matching files may come and go."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").touch()
    assert roots([pattern], str(tmp_path)) == [(str(tmp_path / expected[0]), expected[1])]
