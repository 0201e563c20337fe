"""Reads pages: sparse decoding of OCR vision-language models."""
