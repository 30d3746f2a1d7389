"""A real HTTP server that speaks the OpenAI streaming protocol from scripts."""

from turnflow.apps.fake_provider.loading import ScriptError, load_script, parse_script
from turnflow.apps.fake_provider.provider import FakeProvider, serve
from turnflow.apps.fake_provider.script import Script

__all__ = ["FakeProvider", "Script", "ScriptError", "load_script", "parse_script", "serve"]
