"""Qwen2.5-VL 3B and 7B: published weights behind the adapter contract."""
