"""A turn in a process of its own: `python -m tests.turns.child DB BASE_URL FOLDER MODE [TEXT]`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from langgraph.types import Command

from turnflow import OpenAICompatibleChat, TurnResult, arun_turn, build_turn_graph, open_saver, run_turn


def main(db: str, base_url: str, folder: str, mode: str, *rest: str) -> None:
    """Run one turn; `answer` answers the open question, `continue` goes on with the unfinished turn."""

    def quick(name: str) -> str:
        """Leave a mark and return."""
        with (Path(folder) / f"{name}.ran").open("a") as mark:
            mark.write("x")
        return f"{name} ran"

    def slow(name: str) -> str:
        """Leave a mark; the first time, hang."""
        result = quick(name)
        if len((Path(folder) / f"{name}.ran").read_text()) == 1:
            time.sleep(60)
        return result

    given: Any = {"answer": lambda: Command(resume=rest[0]), "continue": lambda: None}.get(
        mode, lambda: rest[0]
    )()
    with open_saver(db) as saver:
        model = OpenAICompatibleChat(model="fake", base_url=base_url, max_retries=0)
        graph = build_turn_graph(
            model, [quick, slow], policies={"slow": {"idempotent": True}}, checkpointer=saver
        )
        if mode == "async":
            result: TurnResult = asyncio.run(arun_turn(graph, given, thread_id="t"))
        else:
            result = run_turn(graph, given, thread_id="t")
    roles = [message.type for message in result.messages]
    print(json.dumps({"status": result.status, "answer": result.answer, "roles": roles}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
