"""What everything else stands on: validation, warnings, linear algebra, tables, serialization."""
