"""The one error a person may see: what was wrong, where, and what is allowed, in one line."""


class InputError(ValueError):
    """Something given from outside is wrong. The command line prints its message alone, with exit code 2."""


class BackboneChanged(InputError, RuntimeError):
    """What no error of ours may ever do; whatever was trained meanwhile is not to be used."""


class Tellable(InputError):
    """Raised on a client's machine, with a text that names none of its records: the server may see it."""
