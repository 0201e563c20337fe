"""Held-out pages of the embedded reader: fonts and texts it was never trained on, with truth."""
