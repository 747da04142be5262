"""Which addresses a connection is offered under, and for how long they are looked for.

The library leaves this machine's own address out, so it could not be used without a network; and it
waits five seconds for a STUN server that doesn't answer, while a client waits for its answer.
"""

from aioice import Candidate
from aiortc import RTCIceTransport

LOOPBACK = "127.0.0.1"
GATHER = 2  # seconds


def reach(transport: RTCIceTransport, *, is_local: bool) -> None:
    """To be called before it gathers. `is_local`: the peer is on this machine."""
    connection = transport.iceGatherer._connection  # there is no public way to it
    usual = connection.get_component_candidates

    async def candidates(
        component: int, addresses: list[str], timeout: int = GATHER
    ) -> list[Candidate]:
        if (is_local or not addresses) and LOOPBACK not in addresses:
            addresses = [*addresses, LOOPBACK]
        return await usual(component, addresses, timeout)

    # Instead of a subclass: the library makes the connection itself.
    connection.get_component_candidates = candidates  # type: ignore[method-assign]
