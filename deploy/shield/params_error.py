"""The error that a shield parameter without meaning raises."""


class ShieldParamsError(ValueError):
    """A shield parameter has no meaning: names the parameter, the value and what was allowed."""
