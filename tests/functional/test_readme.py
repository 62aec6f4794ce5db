"""The README's session is run, line by line, and its output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click

from tests.program import REPOSITORY, Program


def session() -> list[tuple[str, str]]:
    """Return (command, expected output) pairs of the README's console block."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- run -->\n```console\n(.*?)```", text, re.DOTALL)
    assert block is not None
    pairs = []
    for part in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        pairs.append((command, output))
    return pairs


def comparable(text: str, directory: Path) -> str:
    """Return output without the time it took and the directory it ran in."""
    return re.sub(r"in \d+\.\d s", "in 0.0 s", text.replace(f"{directory}/", ""))


def test_the_readme_says_what_happens(tmp_path: Path) -> None:
    """Every command of the sixty seconds prints what the README shows."""
    tools = tmp_path / "tools"
    tools.mkdir()
    script = tools / "filecollect"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m filecollect "$@"\n')
    script.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    env = Program(place).environment() | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}

    for command, expected in session():
        done = subprocess.run(
            ["sh", "-c", command], cwd=place, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert comparable(done.stdout, place) == expected, (command, done.stderr)


def test_every_command_answers_help_with_the_line_of_the_table() -> None:
    """The table of lazily loaded commands is complete and true."""
    from filecollect.cli.main import COMMANDS, GROUPS, program

    context = click.Context(program)
    for name, (place, text) in COMMANDS.items():
        command = program.get_command(context, name)
        assert command is not None, name
        if not place:
            assert sorted(GROUPS[name]) == sorted(command.list_commands(context))  # type: ignore[attr-defined]
            for inner in GROUPS[name]:
                assert command.get_command(context, inner) is not None, inner  # type: ignore[attr-defined]
        assert text
