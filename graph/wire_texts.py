"""The texts that stand in requests where a provider wants one and the transcript has none."""

from __future__ import annotations

from functools import lru_cache

from turnflow.graph.strict_messages import WireFillers
from turnflow.graph.strict_projection import Fillers
from turnflow.prompts import Prompts


@lru_cache(maxsize=8)
def wire_texts(prompts: Prompts) -> WireFillers:
    """Those of a language."""

    def template(name: str) -> str:
        return prompts.template("context", name)

    return WireFillers(
        projection=Fillers(
            opening=prompts.text("context", "opening"),
            bridge=prompts.text("context", "bridge"),
            go_on=prompts.text("context", "go_on"),
            no_output=prompts.text("result", "empty"),
            attached=template("attached"),
            attachments_follow=prompts.text("context", "attachments_follow"),
            attachments=prompts.text("context", "attachments"),
            attachment=template("attachment"),
        ),
        not_shown=template("not_shown"),
        not_sent=template("not_sent"),
        calling=prompts.text("context", "calling"),
        result=template("lone_result"),
    )
