"""Blindfolds: what is known of a sound job is taken away, and every answer is asked again."""
