"""Training of the embedded reader: fonts, texts, page layout, ink, and the three stages of learning."""
