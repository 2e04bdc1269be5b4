"""Errors that people see: what was wrong, where, and what is allowed, in one line."""


class InputError(ValueError):
    """Something given from outside is wrong; the command line prints the message alone and exits with 2."""


class BackboneChanged(InputError, RuntimeError):
    """The frozen backbone was modified; everything trained since must be discarded."""


class ShareableError(InputError):
    """Error on a client's machine whose message names none of its records, so that the server may see it."""
