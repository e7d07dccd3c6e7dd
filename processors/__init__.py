"""The processes: sequencer, projector, compactor, the local stack and the command line."""
