"""`mini`, the embedded reader: a small vision-language model for clean Latin print, weights in this folder."""
