"""Those who write to the bus: session writers, import and export, topic bootstrap."""
