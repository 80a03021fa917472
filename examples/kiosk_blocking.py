import os

from curb_client import AgentRefusedError, blocking

with blocking.join(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as call:
    form = call.agent.wait_for("show-form")
    try:
        quote = call.agent.ask("quote", {"plan": "basic"}, timeout=5)
        print("price:", quote["price"])
        print("form:", form.result())
    except AgentRefusedError as refused:
        print("the agent said no:", refused.code, refused.issues)
