"""The demo: agents write, their sessions are compacted, processes die, and all is proved."""
