"""Draws a turn's events at the terminal: text as it comes, thoughts dimmed, a row for each tool."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from turnflow.apps.command_line.plain import plain
from turnflow.graph.outcome import WORSE

MAX_SHOWN = 100


class TurnScreen:
    """Shows events on a console; without a console it shows nothing."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._calls: dict[str, str] = {}
        self._running: list[str] = []
        self._status: Status | None = None
        self._mid_line = False
        self._style = ""
        self._said = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.clear()
        self._spin()
        self._end_line()

    def show(self, event: dict[str, Any]) -> None:
        """Draw one event."""
        if self._console is None:
            return
        draw = getattr(self, "_on_" + str(event.get("type", "")).replace(".", "_"), None)
        if draw:
            draw(event)

    def _on_round_started(self, _event: dict[str, Any]) -> None:
        self._said = False

    def _on_content_delta(self, event: dict[str, Any]) -> None:
        self._said = True
        self._write(event["text"], "")

    def _on_thinking_delta(self, event: dict[str, Any]) -> None:
        self._write(event["text"], "dim italic")

    def _on_content_retract(self, _event: dict[str, Any]) -> None:
        self._said = False
        self._row("↶ taken back: what stands above is not the answer", "dim")

    def _on_tool_call(self, event: dict[str, Any]) -> None:
        arguments = ", ".join(f"{key}={_short(value)}" for key, value in event["args"].items())
        self._calls[event["tool_call_id"]] = f"{event['name']}({arguments})"

    def _on_tool_started(self, event: dict[str, Any]) -> None:
        self._running.append(event["tool_call_id"])
        self._spin()

    def _on_tool_result(self, event: dict[str, Any]) -> None:
        call_id = event["tool_call_id"]
        if call_id in self._running:
            self._running.remove(call_id)
        self._spin()
        ok = event["status"] == "ok"
        call = self._calls.get(call_id, event["name"])
        took = f"  ({event['duration']:.2f} s)" if "duration" in event else ""
        self._row(f"{'✓' if ok else '✗'} {call} → {_short(event['content'])}{took}", "green" if ok else "red")

    def _on_nudge(self, event: dict[str, Any]) -> None:
        self._row(f"· nudge: {event['key']}", "dim")

    def _on_repair(self, event: dict[str, Any]) -> None:
        again = " again" if event["times"] > 1 else ""
        self._row(f"· sent back{again}: {event['key']}", "dim")

    def _on_degraded(self, event: dict[str, Any]) -> None:
        refused = event["degradation"]
        if refused == "messages":
            self._row(
                "· the provider does not take the messages as they are; sending them more strictly", "dim"
            )
            return
        way = "going on with them as text" if event.get("dialect") else "going on without"
        self._row(
            f"· the provider takes no {_REFUSED.get(refused, refused)}; {way}",
            "yellow" if refused in WORSE else "dim",
        )

    def _on_retry(self, event: dict[str, Any]) -> None:
        error = event.get("error") or {}
        why = f"status {error['status_code']}" if error.get("status_code") else error.get("type", "no reply")
        self._row(f"· {why}: asking again in {event['wait']:.1f} s", "dim")

    def _on_steered(self, event: dict[str, Any]) -> None:
        count = len(event["message_ids"])
        self._row(f"· took in {count} message{'s' if count > 1 else ''} that came meanwhile", "dim")

    def _on_folded(self, event: dict[str, Any]) -> None:
        if event.get("failed"):
            told = f"· nothing was summed up ({event.get('why', 'no reason given')}); going on"
        elif "tokens_before" in event:
            told = f"· summed up: {event['tokens_before']:,} tokens became {event['tokens_after']:,}"
        else:
            told = f"· folded {len(event['message_ids'])} messages"
        self._row(told, "dim")

    def _on_turn_ended(self, event: dict[str, Any]) -> None:
        status = event["outcome"]["status"]
        if not self._said:
            # An answer for the code that called the turn: nothing of it was streamed.
            self._write(event.get("answer", ""), "")
        if status not in {"finished", "paused"}:
            self._row(f"· {status} ({event['outcome']['stop_reason']})", "yellow")
        self._end_line()

    def _write(self, text: str, style: str) -> None:
        if self._console is None or not text:
            return
        if style != self._style:
            self._end_line()
        self._style = style
        shown = plain(text)
        self._console.print(shown, style=style, end="", markup=False, soft_wrap=True)
        if shown:
            self._mid_line = not shown.endswith("\n")

    def _row(self, text: str, style: str) -> None:
        self._end_line()
        if self._console is not None:
            self._console.print(plain(text), style=style, markup=False, soft_wrap=True)

    def _end_line(self) -> None:
        if self._mid_line and self._console is not None:
            self._console.print()
        self._mid_line = False

    def _spin(self) -> None:
        """Show a spinner while tools run, on a terminal."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._running and self._console is not None and self._console.is_terminal:
            self._end_line()
            calls = ", ".join(self._calls.get(call_id, call_id) for call_id in self._running)
            self._status = self._console.status(Text(plain(calls)))
            self._status.start()


_REFUSED = {"system_role": "system messages", "output_limit": "limit of output tokens"}
"""What is refused, in words, where its name says it less well."""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
