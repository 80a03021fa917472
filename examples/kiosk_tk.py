import os
import tkinter as tk

from curb_client import CurbError, blocking


def build(root: tk.Tk, call: blocking.Call) -> None:
    price = tk.Label(root, text="Which plan?", width=40)
    form = tk.Label(root)
    button = tk.Button(root, text="Basic")
    for widget in (price, form, button):
        widget.pack(padx=20, pady=10)

    def ask() -> None:
        try:
            quote = call.agent.ask("quote", {"plan": "basic"}, timeout=5)
            price["text"] = f"{quote['price']} a month"
        except CurbError as error:
            price["text"] = f"Sorry: {error}"

    def show_form(payload, meta):
        form["text"] = "Please tell us: " + ", ".join(payload["fields"])

    def poll() -> None:
        root.after(50, poll)  # first, so that a handler that fails does not end it
        call.poll()

    button["command"] = ask
    call.agent.on("show-form", show_form)
    poll()


def main() -> None:
    root = tk.Tk()
    root.title("Insurance")
    with blocking.join(os.environ["LIVEKIT_URL"], os.environ["LIVEKIT_TOKEN"]) as call:
        build(root, call)
        root.mainloop()


if __name__ == "__main__":
    main()
