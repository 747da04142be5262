"""A client's SDP offer -> one that can be answered, or why not.

Sources: RFC 8866 (SDP), RFC 8839 (candidates), RFC 9143 (bundles), RFC 8829 (offers and answers).
"""

from aiortc.sdp import MediaDescription, SessionDescription

from livecap.api.webrtc.candidates import CANDIDATES, TooMany, is_reachable

KINDS = ("audio", "video", "application")
HASHES = ("sha-256", "sha-384", "sha-512")
SENDS = (None, "sendonly", "sendrecv")
MOST = 16  # media sections
CANDIDATE = "a=candidate:"
MOST_LINES = 4 * CANDIDATES  # of them, those that can't be reached included


class BadOffer(ValueError):
    """It can't be answered; the message says why."""


def usable(text: str, *, is_ingest: bool, is_local: bool) -> str:
    """The offer, less what would only cost time. Raises BadOffer. `is_local`: from this machine."""
    if count(text) > MOST_LINES:
        raise BadOffer(str(TooMany()))
    offer = plain(text, is_local=is_local)
    if count(offer) > CANDIDATES:
        raise BadOffer(str(TooMany()))
    description = parsed(offer)
    media = description.media
    if not 0 < len(media) <= MOST:
        raise BadOffer(f"The offer has {len(media)} media sections.")
    for one in media:
        _check(one)
    mids = [one.rtp.muxId for one in media]
    bundled = next((group.items for group in description.group if group.semantic == "BUNDLE"), [])
    if len(set(mids)) != len(mids) or (len(mids) > 1 and set(bundled) != set(mids)):
        raise BadOffer("All media have to be in one BUNDLE group, each with its own a=mid.")
    _check_audio([one for one in media if one.kind == "audio"])
    kinds = [one.kind for one in media]
    if is_ingest and (kinds.count("audio") > 1 or kinds.count("video") > 1):
        raise BadOffer("At most one audio and one video track can be taken.")
    if kinds.count("application") > 1:
        raise BadOffer("There can be one section for data channels only.")
    return offer


def parsed(text: str) -> SessionDescription:
    """Raises BadOffer for what is no SDP."""
    try:
        found = SessionDescription.parse(text)
    except (
        # What the parser, which takes its text to be right, runs into if it is not.
        AssertionError,
        AttributeError,
        IndexError,
        KeyError,
        StopIteration,
        TypeError,
        ValueError,
    ) as error:
        raise BadOffer("This is no SDP that can be read.") from error
    return found


def count(offer: str) -> int:
    """Its candidates."""
    return sum(line.startswith(CANDIDATE) for line in offer.splitlines())


def plain(text: str, *, is_local: bool) -> str:
    """The offer without the addresses that can't be reached from here.

    Browsers hide theirs behind names in `.local`, each of which would be looked for in vain for a
    second in most networks. None of them is needed: the client has ours, and by its packets we
    learn where it is.
    """
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("a=end-of-candidates"):
            continue
        if line.startswith(CANDIDATE):
            value = line.removeprefix(CANDIDATE)
            if not is_reachable(value, is_local=is_local):
                continue
        if line.strip():
            lines.append(line)
    return "\r\n".join([*lines, ""])


def _check(media: MediaDescription) -> None:
    if media.kind not in KINDS:
        raise BadOffer(f"Media of the kind {media.kind[:20]!r} can't be taken.")
    if not media.ice or not media.ice.usernameFragment or not media.ice.password:
        raise BadOffer("a=ice-ufrag or a=ice-pwd is missing.")
    if not media.dtls or not media.dtls.fingerprints:
        raise BadOffer("a=fingerprint or a=setup is missing: media has to be encrypted.")
    if not any(print.algorithm.lower() in HASHES for print in media.dtls.fingerprints):
        raise BadOffer(f"a=fingerprint has to be one of {', '.join(HASHES)}.")
    if media.kind != "application" and not media.rtcp_mux:
        raise BadOffer("a=rtcp-mux is missing.")


def _check_audio(audio: list[MediaDescription]) -> None:
    sent = [one for one in audio if one.direction in SENDS]
    if not sent:
        raise BadOffer("The offer sends no audio.")
    codecs = [(codec.mimeType.lower(), codec.clockRate) for codec in sent[0].rtp.codecs]
    if ("audio/opus", 48_000) not in codecs:
        raise BadOffer("The audio has to be Opus.")
