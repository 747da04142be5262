"""The addresses that a client names in an offer or later: which of them are tried, and how many.

Each is sent packets, and paired with all of ours. So it must not be many, and whoever is elsewhere
doesn't choose addresses that only this machine and its network reach by that name. Sources: RFC
8839; RFC 6890 for addresses with a meaning of their own.
"""

import ipaddress

CANDIDATES = 64  # of one call: those in its offer, and all that come later

# Where providers of machines answer them alone, and often with secrets. Most are link-local.
METADATA = frozenset(
    ipaddress.ip_address(one) for one in ("100.100.100.200", "168.63.129.16", "fd00:ec2::254")
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # the last 32 bits are an address of IPv4

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TooMany(ValueError):
    """More than a call may have."""

    def __init__(self) -> None:
        super().__init__(f"A call can have {CANDIDATES} candidates at most.")


def is_reachable(candidate: str, *, is_local: bool) -> bool:
    """Whether the value of an `a=candidate` is a UDP address in figures that may be tried.

    `is_local`: the client is on this machine.
    """
    bits = candidate.split()
    if len(bits) < 8 or bits[1] != "1" or bits[2].lower() != "udp" or bits[6] != "typ":
        return False
    try:
        address = ipaddress.ip_address(bits[4])
    except ValueError:
        return False
    if not is_local and not _is_elsewhere(address):
        return False
    return bits[3].isdecimal() and bits[5].isdecimal() and 0 < int(bits[5][:6]) < 65_536


def _is_elsewhere(address: Address) -> bool:
    """Whether a client that is not on this machine can be there."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is None and address.teredo:
            inner = address.teredo[1]
        if inner is not None and not _is_elsewhere(inner):
            return False
    special = address.is_loopback or address.is_link_local or address.is_multicast
    return not (special or address.is_unspecified or address.is_reserved or address in METADATA)
