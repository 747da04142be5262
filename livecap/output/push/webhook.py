"""Lines -> a URL, as signed JSON.

Source: the Standard Webhooks specification (ids, timestamps, signatures, retries, status 410).
"""

import base64
import hmac
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import ClassVar

from livecap.output.line_assembler import described
from livecap.output.lines import strict_json
from livecap.output.push import http
from livecap.output.push.addresses import shown_address
from livecap.output.push.caption_line import LineRefused, Pause, ReceiverGone, Said, Undelivered

TYPE = "caption.final"


class Webhook:
    """One URL. Without a secret, what is sent is not signed."""

    kind: ClassVar[str] = "webhook"
    worth: ClassVar[float] = 3600.0
    quiet: ClassVar[float | None] = None

    def __init__(
        self, url: str, secret: bytes | None, now: Callable[[], float] = time.time
    ) -> None:
        """`now`: Unix seconds."""
        self._url = url
        self._secret = secret
        self._now = now
        self.name = f"webhook {shown_address(url)}"

    def send(self, line: Said, pause: Pause) -> None:
        """One POST. Raises Undelivered, Refused or Gone."""
        # The same however often it is sent, so that a receiver can tell.
        id = f"msg_{line.session}_{line.number}"
        at = datetime.fromtimestamp(line.spoken, UTC)
        payload = {
            "type": TYPE,
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "data": {"session": line.session, "id": line.number, **described(line.caption)},
        }
        body = strict_json(payload).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json", **self._signed(id, body)}
        answer = http.exchange(self._url, body, headers)
        if answer.is_good:
            return
        if answer.status == 410:
            raise ReceiverGone("it is gone (410)")
        if answer.is_passing:
            raise Undelivered(f"it answered {answer.status}", after=answer.after)
        if answer.is_redirect:
            raise LineRefused(
                f"it answered {answer.status}: it is elsewhere now, and that is not followed; "
                "give the new address to --webhook"
            )
        raise LineRefused(f"it does not take captions ({answer.status})")

    def rest(self) -> None:
        """Silence is not told."""

    def close(self) -> None:
        """Nothing is held open."""

    def _signed(self, id: str, body: bytes) -> dict[str, str]:
        stamp = str(int(self._now()))
        headers = {"webhook-id": id, "webhook-timestamp": stamp}
        if self._secret:
            signed = f"{id}.{stamp}.".encode() + body
            tag = base64.b64encode(hmac.digest(self._secret, signed, "sha256")).decode()
            headers["webhook-signature"] = f"v1,{tag}"
        return headers
