"""What holds for all tests: property tests run the same way everywhere, and torch runs as it does in training."""

import os

from hypothesis import HealthCheck, settings

from fedsgt.stack import profile

# Before anything imports torch, which reads this once.
os.environ.update(profile.environment())

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
