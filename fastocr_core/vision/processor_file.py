"""What a checkpoint's own files say about its image processor. Plain json, nothing is run.

Older checkpoints keep it in preprocessor_config.json, newer ones inside processor_config.json.
"""

import json
from pathlib import Path
from typing import Any


def image_processor_settings(folder: Path) -> dict[str, Any]:
    """The image processor's settings of a checkpoint folder; empty where it has no such file.

    ValueError if a file is there but does not hold an object.
    """
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = folder / name
        if not path.is_file():
            continue
        settings = json.loads(path.read_text("utf-8"))
        if not isinstance(settings, dict):
            raise ValueError(f"{path} does not hold an object")
        found = settings.get("image_processor", settings if name.startswith("pre") else None)
        if isinstance(found, dict):
            return found
    return {}
