from pathlib import Path
from typing import Any

import pytest

from tf_blade import Config, ConfigError


def test_a_toml_file_sets_fields_and_lists_become_tuples(tmp_path: Path):
    file = tmp_path / "blade.toml"
    file.write_text('freeze = false\nbatch_sizes = [1, 3]\nrtol = 0\ncache_dir = "c"\n')
    config = Config.from_toml(file)
    assert config == Config(freeze=False, batch_sizes=(1, 3), rtol=0.0, cache_dir="c")
    assert isinstance(config.rtol, float)


def test_an_unknown_key_is_refused_with_the_closest_one(tmp_path: Path):
    file = tmp_path / "blade.toml"
    file.write_text("freze = true\n")
    with pytest.raises(ConfigError, match=r"unknown key 'freze'. Did you mean 'freeze'\?"):
        Config.from_toml(file)


def test_an_unknown_key_that_is_like_none_lists_the_known(tmp_path: Path):
    with pytest.raises(ConfigError, match="Known keys: tags, freeze"):
        Config.from_dict({"zzz": 1})


@pytest.mark.parametrize("text", ["a = ", "= 3", "\x00"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "blade.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="not valid TOML"):
        Config.from_toml(file)


def test_a_missing_file_is_refused():
    with pytest.raises(ConfigError, match="can't read the config file"):
        Config.from_toml("/no/such/file.toml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("jobs", 0),
        ("jobs", True),
        ("jobs", "2"),
        ("rtol", -1.0),
        ("rtol", float("nan")),
        ("atol", float("inf")),
        ("tags", "serve"),
        ("tags", []),
        ("batch_sizes", []),
        ("batch_sizes", [0]),
        ("batch_sizes", [1.5]),
        ("cpu_targets", ["x86-64-v1"]),
        ("cpu_targets", ["x86-64-v3", "aarch64"]),
        ("freeze", 1),
        ("freeze_threshold_bytes", -1),
        ("timing_seconds", -0.1),
        ("cache_dir", 3),
    ],
)
def test_values_outside_their_range_are_refused_by_key(key: str, value: Any):
    with pytest.raises(ConfigError, match=f"config key '{key}'"):
        Config(**{key: value})


def test_the_cache_is_the_configured_folder_else_the_environments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TF_BLADE_CACHE", "/env/cache")
    assert Config(cache_dir="/mine").cache_path == Path("/mine")
    assert Config().cache_path == Path("/env/cache")
    monkeypatch.delenv("TF_BLADE_CACHE")
    assert Config().cache_path == Path.home() / ".cache/tf-blade"
