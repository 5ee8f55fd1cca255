"""What every engine and its users must be able to name; imports nothing."""


class DeviceLost(Exception):
    """Nothing can be computed any more; every request fails."""
