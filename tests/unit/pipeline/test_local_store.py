"""A folder keeps the promises of an object store: whole objects, one winner, no way out."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from workers.object_store import (
    LocalStore,
    StorageChanged,
    StorageError,
    StorageMissing,
    StorageUnsupported,
    honours_put_if_absent,
)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "store"))


def test_put_if_absent_has_exactly_one_winner(store: LocalStore) -> None:
    for number in range(20):
        start = threading.Barrier(8)

        def put(writer: int, key: str = f"pages/{number}", start: threading.Barrier = start) -> bool:
            start.wait()
            return store.put_if_absent(key, f"{writer}".encode())

        with ThreadPoolExecutor(8) as writers:
            won = list(writers.map(put, range(8)))
        assert sum(won) == 1
        assert store.get(f"pages/{number}") == str(won.index(True)).encode()
    assert sorted(stored.key for stored in store.list()) == sorted(f"pages/{n}" for n in range(20))
    assert honours_put_if_absent(store)


def test_objects_are_replaced_whole_found_and_deleted(store: LocalStore) -> None:
    store.put("a/b", b"one")
    store.put("a/b", b"two")
    assert store.get("a/b") == b"two"
    assert store.exists("a/b")
    assert not store.exists("a")
    store.delete("a/b")
    store.delete("a/b")
    assert list(store.list("a/")) == []
    with pytest.raises(StorageMissing):
        store.get("a/b")


def test_a_changed_file_is_not_the_one_that_was_listed(store: LocalStore) -> None:
    store.put("a", b"one")
    (listed,) = store.list()
    assert store.get("a", listed.etag) == b"one"
    store.put("a", b"other")
    with pytest.raises(StorageChanged):
        store.get("a", listed.etag)


@pytest.mark.parametrize("key", ["../out", "a/../../out", "/etc/passwd", "", "a\0b"])
def test_no_key_leads_out_of_the_root(store: LocalStore, key: str) -> None:
    for act in (store.get, store.find, lambda key: store.put(key, b"")):
        with pytest.raises(StorageError, match="does not name an object"):
            act(key)


def test_a_folder_of_work_is_removed_with_its_folders(store: LocalStore) -> None:
    store.put("_work/staged/shard-1", b"")
    store.put("pages/part", b"")
    assert store.delete_below("_work/") == 1
    assert not Path(store.root, "_work").exists()
    assert [stored.key for stored in store.list()] == ["pages/part"]


def test_what_vanishes_while_it_is_listed_is_simply_not_there(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("_work/a/1", "_work/b/2", "_work/c/3"):
        store.put(key, b"")
    walk = os.walk

    def walk_beside_another_driver(*args: Any, **settings: Any) -> Iterator[tuple[str, list[str], list[str]]]:
        for folder, folders, names in walk(*args, **settings):
            if folder.endswith("_work"):
                shutil.rmtree(Path(folder, "b"))
            for name in [name for name in names if name == "3"]:
                Path(folder, name).unlink()
            yield folder, folders, names

    monkeypatch.setattr(os, "walk", walk_beside_another_driver)
    left_out: list[str] = []
    assert [stored.key for stored in store.list("_work/", left_out.append)] == ["_work/a/1"]
    assert left_out == []


def test_only_regular_files_are_objects(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/file", b"x")
    root = Path(store.root)
    (root / "loop").symlink_to("loop")
    (root / "link").symlink_to(root / "a" / "file")
    (root / "folder").symlink_to(root / "a")
    os.mkfifo(root / "pipe")
    left_out: list[str] = []
    listed = [stored.key for stored in store.list(left_out=left_out.append)]
    assert sorted(listed) == ["a/file", "link"]
    assert sorted(left_out) == [f"{root}/folder/", f"{root}/loop", f"{root}/pipe"]
    assert [key for key in ("loop", "link", "folder", "pipe", "a/file/x") if store.exists(key)] == ["link"]


@pytest.mark.parametrize("put", [LocalStore.put, LocalStore.put_if_absent])
@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
def test_a_work_folder_removed_while_we_write_costs_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, put: Callable[..., object], step: str
) -> None:
    real = getattr(os, step)
    removals = iter([True, True])

    def beside_another_driver(*args: Any) -> Any:
        if next(removals, False):
            shutil.rmtree(Path(store.root, "_work"))
        return real(*args)

    monkeypatch.setattr(os, step, beside_another_driver)
    assert put(store, "pages/a", b"whole") is not False
    assert store.get("pages/a") == b"whole"
    assert [stored.key for stored in store.list()] == ["pages/a"]


@pytest.mark.parametrize("place", ["pages", "_work"])
def test_a_file_where_a_folder_is_needed_is_said(store: LocalStore, place: str) -> None:
    Path(store.root).mkdir()
    Path(store.root, place).write_bytes(b"x")
    with pytest.raises(StorageError, match="a file stands where a folder is needed"):
        store.put_if_absent("pages/part", b"y")


def test_a_file_system_without_hard_links_needs_a_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    careful = LocalStore(str(tmp_path))
    assert not honours_put_if_absent(careful)
    with pytest.raises(StorageUnsupported, match="no hard links"):
        careful.put_if_absent("part", b"data")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    single = LocalStore(str(tmp_path), single_writer=True)
    assert single.put_if_absent("part", b"first")
    assert not single.put_if_absent("part", b"second")
    assert single.get("part") == b"first"
