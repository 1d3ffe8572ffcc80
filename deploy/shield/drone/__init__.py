"""The shield of multirotors: barriers on accelerations, and hover and land as the fallback."""
