"""Text to token numbers and back, over the tokenizer.json of a checkpoint folder.

A thin front of the `tokenizers` library: no chat templates, nothing added that was not written.
"""

from collections.abc import Sequence
from pathlib import Path

import tokenizers

TOKENIZER_FILE = "tokenizer.json"


class Tokenizer:
    """The vocabulary of one model. FileNotFoundError or ValueError if the folder has no usable one."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / TOKENIZER_FILE
        if not self.file.is_file():
            raise FileNotFoundError(f"there is no {TOKENIZER_FILE} in {folder}")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(self.file))
        except Exception as error:  # the library raises bare exceptions
            raise ValueError(f"{self.file} is not a readable tokenizer: {error}") from error
        # A stored padding or length limit is for training batches; it would change a prompt.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows, added ones included; a model's embedding may be longer."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        """Token numbers; special tokens written in the text are recognised, none are added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int], keep_special: bool = True) -> str:
        """The text of token numbers; special tokens are written out or left away."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=not keep_special))

    def id_of(self, token: str) -> int:
        """The number of one token. ValueError if the vocabulary has none of that name."""
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise ValueError(f"{self.file} knows no token {token!r}")
        return int(number)
