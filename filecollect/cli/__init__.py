"""Commands: text, exit codes and rendering only."""
