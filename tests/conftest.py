"""Pytest's own configuration: fixtures of real servers, and Hypothesis that repeats itself in CI."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["tests.postgres"]

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
