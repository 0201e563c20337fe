"""olmOCR-2: a fine-tune of Qwen2.5-VL-7B that reads pages as markdown under a front matter."""
