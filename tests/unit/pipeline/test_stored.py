"""Tables are read back as they were written, in part or whole, and what is lacking is said in a sentence."""

import gc
import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import ref

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stored import read_table
from workers.object_store import LocalStore, StorageDamaged

KEY = "pages/some.parquet"
COLUMNS = ("name", "outcome", "number")
rows = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(max_size=3),
            "outcome": st.none() | st.sampled_from("ab"),
            "number": st.integers(0, 9),
        }
    )
)


def _table(values: list[dict[str, object]]) -> pa.Table:
    schema = pa.schema(
        [("name", pa.string()), ("outcome", pa.string()), ("number", pa.int64())], {"made": "here"}
    )
    return pa.Table.from_pylist(values, schema)


class InMemory(LocalStore):
    """One object, whose readers are remembered without being kept."""

    def __init__(self, data: bytes) -> None:
        super().__init__("/nowhere")
        self._data = data
        self.readers: list[ref[io.BytesIO]] = []

    @contextmanager
    def open(self, key: str) -> Iterator[io.BytesIO]:  # type: ignore[override]
        """The object, whatever the key."""
        reader = io.BytesIO(self._data)
        self.readers.append(ref(reader))
        yield reader


def _store(values: list[dict[str, object]], rows_at_once: int = 3) -> InMemory:
    sink = io.BytesIO()
    pq.write_table(_table(values), sink, row_group_size=rows_at_once)
    return InMemory(sink.getvalue())


@given(
    rows,
    st.none() | st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1),
    st.none() | st.sampled_from("abc"),
)
def test_columns_and_rows_are_those_asked_for(
    values: list[dict[str, object]], columns: list[str] | None, outcome: str | None
) -> None:
    table = read_table(_store(values), KEY, columns, None if outcome is None else {"outcome": outcome})
    wanted = [value for value in values if outcome is None or value["outcome"] == outcome]
    assert table.equals(_table(wanted).select(columns or COLUMNS), check_metadata=True)


def test_a_reader_is_let_go_of_before_the_table_is_there() -> None:
    """A thread of Arrow's that holds it longer than the interpreter lives would abort the process."""
    store = _store([{"name": "n", "outcome": "a", "number": number} for number in range(100)])
    for _ in range(50):
        read_table(store, KEY, ["name"], {"outcome": "a"})
        assert store.readers[-1]() is None
    gc.collect()


@pytest.mark.parametrize(("columns", "where"), [(["nowhere"], None), (["name"], {"nowhere": "a"})])
def test_a_column_that_is_lacking_is_named(columns: list[str], where: dict[str, str] | None) -> None:
    with pytest.raises(StorageDamaged, match=r"some\.parquet is damaged \(it lacks the columns nowhere\)\."):
        read_table(_store([]), KEY, columns, where)


def test_what_is_no_table_is_said() -> None:
    with pytest.raises(StorageDamaged, match=r"some\.parquet is damaged \("):
        read_table(InMemory(b"no table"), KEY)


@pytest.mark.parametrize("closed", [">&-", "2>&- >/dev/null", ">&- 2>&-"])
def test_a_command_keeps_its_exit_code_where_nobody_listens(closed: str) -> None:
    for command, code in (("config show", 0), ("--help", 0), ("verify /nowhere/at/all", 1), ("nonsense", 2)):
        line = f"{sys.executable} -m pipeline {command} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_an_unforeseen_error_keeps_its_traceback_and_exit_code() -> None:
    script = (
        "import sys; from pipeline import cli\n"
        "def broken(): raise RuntimeError('much')\n"
        "cli.application = broken; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("RuntimeError: much\n")


def test_a_command_ends_without_the_teardown_of_the_interpreter(tmp_path: Path) -> None:
    """Threads of libraries are still there then, and abort it now and then."""
    script = (
        "import atexit, sys; from pipeline.cli import main; atexit.register(print, 'torn down'); "
        f"sys.argv = ['fastocr', 'verify', {str(tmp_path / 'nowhere')!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "fastocr: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
