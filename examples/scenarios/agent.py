import pydantic


class QuoteRequest(pydantic.BaseModel):
    plan: str


def add_handlers(call):
    @call.on_message("note")
    def note(payload, meta):
        """Takes anything."""

    @call.on_message("quote", schema=QuoteRequest)
    def quote(request, meta):
        return {"plan": request.plan, "price": 12}

    @call.on_message("open-form")
    def open_form(payload, meta):
        call.send.to_client("show-form", {"fields": ["name", "policy"]})
