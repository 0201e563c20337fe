"""LLaVA-OneVision 0.5B and 7B: published weights behind the adapter contract."""
