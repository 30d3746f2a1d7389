"""Profiles of well-known providers, servers and models, and profiles from files (docs/profiles.md)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from turnflow.graph.given_fields import meant, validated
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.shown import cut

KINDS = ("server", "family", "hosted", "trait")
"""What an entry is about, in the order in which fields lie over each other: an endpoint, a model wherever it
runs, a model at one provider's own address, what neither tells."""

OPENAI_HOST = "api.openai.com"
"""The host where no address is given."""
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
"""OpenAI's own address, where nothing else is said."""

_DATA = "provider_profiles.toml"
_FILES = (".json", ".toml")
_LONGEST_PATH = 300
"""Characters of a path that an error shows."""


class Address(NamedTuple):
    """Where an endpoint is: its host in lower case, and its port at loopback, or None elsewhere."""

    host: str
    loopback_port: int | None


@dataclass(frozen=True)
class KnownProfile:
    """What is known of a provider, a server or a family of models.

    Attributes:
        name: By which it is given.
        kind: One of `KINDS`.
        title: What it is about, for people.
        hosts: Ends of hosts' names, at a dot.
        ports: Ports at loopback.
        models: Patterns of the last part of a model's name, in lower case.
        but_not: Exceptions from `models`.
        fields: Where its profile departs from the defaults.
    """

    name: str
    kind: str
    title: str
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    but_not: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def matches(self, model: str, address: Address | None) -> bool:
        """Whether it is about this model at this address. An entry that says neither matches nothing.

        Args:
            model: The last part of the model's name, in lower case.
            address: None where the address cannot be read.
        """
        if not (self.hosts or self.ports or self.models):
            return False
        return self._is_at(address) and self._is_of(model)

    def _is_at(self, address: Address | None) -> bool:
        if not (self.hosts or self.ports):
            return True
        return address is not None and (
            address.loopback_port in self.ports
            or any(address.host == host or address.host.endswith(f".{host}") for host in self.hosts)
        )

    def _is_of(self, model: str) -> bool:
        return not self.models or (_matches(model, self.models) and not _matches(model, self.but_not))


@lru_cache(maxsize=1)
def load_profiles() -> Mapping[str, KnownProfile]:
    """All that is known, by name, in the order in which fields lie over each other."""
    tables = tomllib.loads((files("turnflow.graph") / _DATA).read_text("utf-8"))
    return MappingProxyType(
        {name: _entry(name, kind, table) for kind in KINDS for name, table in tables[kind].items()}
    )


def find_profile(model_name: str, base_url: str | None) -> ProviderProfile:
    """What is known of a model at an endpoint; the defaults where nothing is.

    Fields of the endpoint come first, those of the model's family over them, those of the model at that very
    provider over both.

    Args:
        model_name: As the endpoint calls it; what stands before the last `/` does not count.
        base_url: The endpoint's address; None is OpenAI's own.

    Raises:
        ValueError: One of them is no text.
    """
    if not isinstance(model_name, str):
        raise ValueError(f"model_name is the name of a model, not {model_name!r:.80}")
    if not isinstance(base_url, str | None):
        raise ValueError(f"base_url is the address of an endpoint or None, not {base_url!r:.80}")
    return found_profile(model_name, base_url)


@lru_cache(maxsize=1000)
def found_profile(model_name: str, base_url: str | None) -> ProviderProfile:
    """The same for texts, found once."""
    model, address = _last_part(model_name), _address(base_url)
    return _combined(entry for entry in load_profiles().values() if entry.matches(model, address))


def named_profile(name: str, *, files: str = "load_profile reads a file") -> ProviderProfile:
    """A profile by its name, or several of different kinds, as `vllm+qwen3`.

    Args:
        name: The name, or several with `+` between them, in any order.
        files: What an error says about files, behind the list of names.

    Raises:
        ValueError: There is no such profile, or two are of one kind; the text lists the names.
    """
    if not isinstance(name, str):
        raise ValueError(f"the name of a provider profile is a text, not {name!r:.80}")
    known = load_profiles()
    entries: list[KnownProfile] = []
    for part in (part.strip().lower() for part in name.split("+")):
        if part not in known:
            wrong = f"no provider profile is named {part!r:.80}{meant(part, known)}"
            if not part:
                wrong = f"provider profile {name!r:.80} " + ("lacks a name" if name.strip() else "is no name")
            raise ValueError(
                f"{wrong}; the names are: {', '.join(known)}; several go together as 'vllm+qwen3', {files}"
            )
        same = next((entry for entry in entries if entry.kind == known[part].kind), None)
        if same is not None:
            raise ValueError(
                f"provider profile {name!r:.80}: {same.name} and {part} are both of the kind {same.kind!r}; "
                "name at most one of each kind"
            )
        entries.append(known[part])
    return _combined(sorted(entries, key=lambda entry: KINDS.index(entry.kind)))


def load_profile(path: str | Path) -> ProviderProfile:
    """A profile from a JSON or TOML file with the fields of `ProviderProfile`.

    Raises:
        ValueError: The file is not there or wrong; the text names it, the field and the mend.
    """
    if not isinstance(path, str | Path):
        raise ValueError(f"a profile's file is given as its path, a text or a Path, not {path!r:.80}")
    path = Path(path)
    named = f"profile {cut(str(path), _LONGEST_PATH)}"
    form = path.suffix.lower()
    if form not in _FILES and path_is(path.is_dir):
        raise ValueError(f"{named} is a folder; give a file whose name ends in .json or .toml")
    if form not in _FILES:
        raise ValueError(f"{named}: the name ends in neither .json nor .toml; call it one of them")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{named} is no text in UTF-8; save it as UTF-8") from error
    except OSError as error:
        raise ValueError(f"{named} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a path with a zero byte or half a surrogate pair
        raise ValueError(f"{named!r} cannot be read: it has a character that no path has") from error
    try:
        given = json.loads(text) if form == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{named} is no {form[1:].upper()}: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"{named} holds no object; write {{}} with the fields of a profile in it")
    return validated(ProviderProfile, named, given)


def path_is(asked: Callable[[], bool]) -> bool:
    """What a path is asked, as `path.is_dir`; False for one that no file can have."""
    try:
        return asked()
    except (OSError, ValueError):
        return False


def as_profile(given: object) -> ProviderProfile | None:
    """A profile from what a caller gives: a profile, its fields, a name or a file's path; None stays None.

    Raises:
        ValueError: It is none of them, or wrong; the text names the value and the mend.
    """
    if given is None or isinstance(given, ProviderProfile):
        return given
    if isinstance(given, Mapping):
        return validated(ProviderProfile, "provider_profile", given)
    if isinstance(given, Path):
        return load_profile(given)
    if isinstance(given, str):
        if given.lower().endswith(_FILES):
            raise ValueError(
                f"provider_profile {given!r:.80} is no name; to read a file, give Path({given!r:.80})"
            )
        return named_profile(given, files="a file is given as a Path")
    raise ValueError(
        f"provider_profile takes a ProviderProfile, a dict of its fields, a name or a Path, not {given!r:.80}"
    )


def _entry(name: str, kind: str, table: Mapping[str, Any]) -> KnownProfile:
    lists = {key: tuple(table.get(key, ())) for key in ("hosts", "ports", "models", "but_not")}
    return KnownProfile(
        name, kind, table["title"], fields=MappingProxyType(table.get("profile", {})), **lists
    )


def _combined(entries: Iterable[KnownProfile]) -> ProviderProfile:
    fields: dict[str, Any] = {}
    for entry in entries:
        fields.update(entry.fields)
    return ProviderProfile.model_validate(fields)


def _last_part(model_name: str) -> str:
    """The part of a model's name that tells the model: `qwen3-32b` of `accounts/x/models/Qwen3-32B`."""
    parts = [part for part in model_name.strip().lower().replace("\\", "/").split("/") if part]
    return parts[-1].removeprefix("ft:") if parts else ""


def _matches(model: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits a model's name, with what stands behind a colon (`:free`, `:8b`) or without."""
    names = {model, model.partition(":")[0]}
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _address(base_url: str | None) -> Address | None:
    if not base_url:
        return Address(OPENAI_HOST, None)
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    return Address(host, port if _is_loopback(host) else None)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
