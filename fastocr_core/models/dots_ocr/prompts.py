"""What dots.ocr was trained to be asked: wording and markers must not be changed by a letter."""

LAYOUT_ALL = (
    "Please output the layout information from the PDF image, including each layout element's bbox, its "
    "category, and the corresponding text content within the bbox.\n"
    "\n"
    "1. Bbox format: [x1, y1, x2, y2]\n"
    "\n"
    "2. Layout Categories: The possible categories are ['Caption', 'Footnote', 'Formula', 'List-item', "
    "'Page-footer', 'Page-header', 'Picture', 'Section-header', 'Table', 'Text', 'Title'].\n"
    "\n"
    "3. Text Extraction & Formatting Rules:\n"
    "    - Picture: For the 'Picture' category, the text field should be omitted.\n"
    "    - Formula: Format its text as LaTeX.\n"
    "    - Table: Format its text as HTML.\n"
    "    - All Others (Text, Title, etc.): Format their text as Markdown.\n"
    "\n"
    "4. Constraints:\n"
    "    - The output text must be the original text from the image, with no translation.\n"
    "    - All layout elements must be sorted according to human reading order.\n"
    "\n"
    "5. Final Output: The entire output must be a single JSON object.\n"
)
PLAIN_OCR = "Extract the text content from this image."

USER, END_OF_USER = "<|user|>", "<|endofuser|>"
IMAGE, IMAGE_PAD, END_OF_IMAGE = "<|img|>", "<|imgpad|>", "<|endofimg|>"
ASSISTANT, END_OF_ASSISTANT = "<|assistant|>", "<|endofassistant|>"
END_OF_TEXT = "<|endoftext|>"

# Numbers in the published vocabulary; checked where a model has that many tokens.
PUBLISHED_VOCABULARY = 151_936
PUBLISHED_IDS = {
    END_OF_TEXT: 151_643,
    IMAGE_PAD: 151_665,
    IMAGE: 151_666,
    END_OF_IMAGE: 151_667,
    USER: 151_670,
    END_OF_USER: 151_671,
    ASSISTANT: 151_672,
    END_OF_ASSISTANT: 151_673,
}
