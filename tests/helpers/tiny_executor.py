"""Stands in for the executor of a client's node, with an app that answers, fails or takes long, as asked."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedsgt.federation.client.executor import execute


def answer(message: Message, context: Context) -> Message:
    wish = str(message.content["ask"]["wish"])
    if wish == "fail":
        raise ValueError("record 4711 is bad")
    time.sleep(60 if wish == "sleep" else 0)
    heard = ConfigRecord({"wish": wish, "client": Path(str(context.node_config["client"])).name})
    return Message(RecordDict({"answer": heard}), reply_to=message)


if __name__ == "__main__":
    execute(sys.argv[1], Path(sys.argv[2]).read_bytes(), answer)
