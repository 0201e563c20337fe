"""What the pipeline adds to reading, as ratios within one run; nothing here asserts on seconds."""
