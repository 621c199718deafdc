"""Serving over TensorFlow Serving's protocol: `server` answers for any SavedModel, `client` asks any such server."""
