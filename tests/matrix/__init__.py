"""The matrix test: every kind of run recounted by means that share nothing with the library."""
