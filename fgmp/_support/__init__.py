"""Tools that know no part of the package: validation, warnings, linear algebra, tables."""
