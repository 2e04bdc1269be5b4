"""Parties on machines of their own: their keys and settings, the server, the clients and the desk."""
