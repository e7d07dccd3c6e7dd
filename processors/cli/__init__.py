"""The command line: one module per group of commands (DESIGN 12)."""
