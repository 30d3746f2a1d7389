"""What a user is told when the embedded model answers."""

TOY_NOTICE = (
    "A toy model answers (SmolLM2-135M on this machine): enough to see turnflow move. For a "
    "real model set OPENAI_API_KEY, OPENAI_BASE_URL and TURNFLOW_MODEL, or give --base-url and --model."
)

TOY_NOTICE_ZH = (
    "现由本机上的玩具模型（SmolLM2-135M）作答，只用来看 turnflow 如何运转。"
    "要用真正的模型，请设置 OPENAI_API_KEY、OPENAI_BASE_URL 和 TURNFLOW_MODEL，或给出 --base-url 和 --model。"
)
