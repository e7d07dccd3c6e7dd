"""Folds of the log: pure functions first, the Redis store and its readers at the rim."""
