"""The file system: finding, proving and reading files."""
