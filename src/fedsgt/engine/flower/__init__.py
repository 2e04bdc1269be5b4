"""The build's rounds as Flower messages: one to each client for all modules that can be trained now."""
