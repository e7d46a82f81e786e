"""The kernel cache under several writers, damage and a size limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tf_blade.compiler.build.cache import Cache
from tf_blade.compiler.build.container import pack, unpack


def entry(text: str, size: int = 0) -> bytes:
    return pack(1, ["x86-64-v3"], text.encode() + bytes(size))


def test_gives_back_what_was_put(tmp_path: Path):
    cache = Cache(tmp_path / "new" / "folder")
    assert cache.get("ab12") is None
    cache.put("ab12", entry("one"))
    assert cache.get("ab12") == entry("one")
    assert cache.get("ab13") is None


@pytest.mark.parametrize("damage", [lambda b: b[:-5], lambda b: b"", lambda b: b[:-1] + b"?"])
def test_a_damaged_entry_counts_as_missing_and_can_be_made_again(tmp_path: Path, damage):
    cache = Cache(tmp_path)
    cache.put("abcd", entry("one"))
    (path,) = tmp_path.glob("*/*")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("abcd") is None
    cache.put("abcd", entry("one"))
    assert cache.get("abcd") == entry("one")


def test_the_least_recently_used_entries_go_first(tmp_path: Path):
    cache = Cache(tmp_path, max_bytes=10_000)
    for i in range(8):
        cache.put(f"{i}0", entry(str(i), 1000))
        os.utime(next(tmp_path.glob(f"{i}0/*")), (i, i))
    cache.get("00")  # used just now
    cache.put("a0", entry("a", 3000))
    assert cache.get("00") is not None and cache.get("a0") is not None
    assert cache.get("10") is None
    assert sum(p.stat().st_size for p in tmp_path.glob("*/*")) <= 10_000


def test_a_folder_that_cannot_be_written_loses_only_the_caching(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    cache = Cache(tmp_path / "file" / "cache")
    cache.put("ab", entry("one"))
    assert cache.get("ab") is None


WRITER = """
import sys
from pathlib import Path
from tf_blade.compiler.build.cache import Cache
from tf_blade.compiler.build.container import pack, unpack
cache = Cache(Path(sys.argv[1]))
for i in range(200):
    cache.put("abcd", pack(1, [], sys.argv[2].encode() * 20_000))
    found = cache.get("abcd")
    assert found is None or len(set(unpack(found).payload)) == 1
"""


def test_readers_never_see_half_of_an_entry_that_others_write(tmp_path: Path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    root = Path(__file__).parents[3]
    writers = [subprocess.Popen([*command, name], cwd=root) for name in "xyz"]
    assert [w.wait(timeout=120) for w in writers] == [0, 0, 0]
    assert [p.name for p in tmp_path.glob("*/*")] == ["abcd.blade"]
    last = Cache(tmp_path).get("abcd")
    assert last is not None and len(set(unpack(last).payload)) == 1
