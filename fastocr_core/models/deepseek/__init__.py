"""DeepSeek-OCR and Unlimited-OCR, on the network that transformers calls `unlimited_ocr`."""
