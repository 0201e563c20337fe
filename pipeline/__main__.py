"""`python -m pipeline` is `fastocr`."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
