"""The projector: reads the log with Faust and keeps the Surface of every session in Redis."""
