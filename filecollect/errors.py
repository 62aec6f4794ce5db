"""Every error the product raises on purpose, arranged by what the caller should do.

    FilecollectError
    |-- UsageError            the user must change the call          exit 2
    |   `-- ConfigError       ... or the config file; lists every mistake
    |-- Retryable             try again later, nothing is lost
    |   |-- FileUnavailable   a file cannot be opened or read now
    |   `-- DatabaseUnavailable   the database is away, busy or full  exit 3
    |-- LeaseLost             somebody else owns the task: roll back, stop that task
    |-- Replaced              the open file is not the one the checkpoint speaks of
    |-- BatchTooBad           the database refuses too many rows: cut the batch smaller
    |-- Unsupported           this file can never be read as configured
    |   `-- BinaryContent     ... because it holds no text
    |-- Corrupt               the file is damaged from here on; what stands before it was read
    |-- CheckpointError       a stored checkpoint is unreadable or from a newer version
    `-- InvariantError        a promise would be broken: roll back and say so

An error carries where it happened (`path`, `offset`) and, where there is one, the way out (`hint`).
"""

from __future__ import annotations

from collections.abc import Sequence


class FilecollectError(Exception):
    """Say what went wrong in one sentence, with its place and a way out."""

    exit_code = 1
    code = "error"

    def __init__(
        self, message: str, *, path: str | None = None, offset: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.hint = hint

    def __str__(self) -> str:
        place = ""
        if self.path is not None:
            place = f"{self.path}: " if self.offset is None else f"{self.path} at byte {self.offset}: "
        return f"{place}{self.message}"


class UsageError(FilecollectError):
    """The call cannot be carried out as written; nothing was touched."""

    exit_code = 2
    code = "usage"


class ConfigError(UsageError):
    """The config file is wrong; `mistakes` holds one sentence for each mistake."""

    code = "config"

    def __init__(self, mistakes: Sequence[str], *, path: str | None = None) -> None:
        super().__init__("\n".join(mistakes), path=None)
        self.mistakes = tuple(mistakes)
        self.path = path

    def __str__(self) -> str:
        return self.message


class Retryable(FilecollectError):
    """The same step may succeed later; nothing is lost."""

    code = "retryable"


class FileUnavailable(Retryable):
    """A file cannot be opened or read at the moment."""

    code = "file_unavailable"


class DatabaseUnavailable(Retryable):
    """The database cannot be reached, is locked for too long, or its disk is full."""

    exit_code = 3
    code = "database_unavailable"


class LeaseLost(FilecollectError):
    """The task belongs to somebody else now; what was not committed must be dropped."""

    code = "lease_lost"


class Replaced(FilecollectError):
    """The open file is not the content that the checkpoint was taken from."""

    code = "replaced"


class BatchTooBad(FilecollectError):
    """The database refused more rows of one batch than are looked for one by one."""

    code = "batch_too_bad"


class Unsupported(FilecollectError):
    """The file's content cannot be read in the way it was asked for."""

    code = "unsupported"


class BinaryContent(Unsupported):
    """The file holds no text in any encoding."""


class Corrupt(FilecollectError):
    """Compressed data is damaged; `offset` is the content offset up to which it could be read."""

    code = "corrupt"


class CheckpointError(FilecollectError):
    """A stored checkpoint cannot be understood; reading must not start from zero instead."""

    code = "checkpoint"


class InvariantError(FilecollectError):
    """Going on would break a promise; the transaction must be rolled back."""

    code = "invariant"
