"""The run of NULs at the start of a file: the hole that a writer leaves after its file was truncated.

A writer without O_APPEND goes on at its old position, so the file begins with a hole, often of gigabytes.
The file system knows holes (SEEK_DATA), so they are not read. A short run is data.
"""

from __future__ import annotations

from filecollect.files.filesystem import FileHandle

NUL_RUN = 64
"""Fewer NULs than this at the start are no hole: UTF-16 begins with one, and NUL is data."""
_READ = 1024 * 1024


def end_of_hole(handle: FileHandle, start: int, bound: int) -> int:
    """Return where the NULs that begin at `start` end: `start` without a run, `bound` when there is nothing else."""
    if handle.read_at(start, min(NUL_RUN, bound - start)) != bytes(NUL_RUN):
        return start
    position = min(handle.data_from(start, bound), bound)
    while position < bound:
        data = handle.read_at(position, min(_READ, bound - position))
        rest = data.lstrip(b"\0")
        position += len(data) - len(rest)
        if rest or not data:
            break
    return position
