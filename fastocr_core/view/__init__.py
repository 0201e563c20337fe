"""Fixation made visible: what each decode step looked at, recorded and drawn on the page."""
