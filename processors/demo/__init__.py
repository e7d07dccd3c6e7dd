"""The demo: recorded agents write, one session is compacted, the sequencer dies, all is proved."""
