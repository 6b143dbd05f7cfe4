"""Tuning results shipped with the package: JSON files, and the schema that describes them."""
