"""All kinds of hostile clients at once, for a few seconds; `benchmarks/abuse.py` is the long form.

The attackers are a process of their own. Two honest sessions get every word meanwhile.
"""

import asyncio
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from abusers import Target
from server_clients import HEALTH, Socket, ask, client, run, utterance
from server_fixture import MANY, Running, serving, until

KEY = "a key that is long enough".replace(" ", "-")
HEAD = {"Authorization": f"Bearer {KEY}"}
SECONDS = 6.0
WORK = """
import asyncio, json, sys
from abusers import Target, attack
told = json.loads(sys.argv[1])
print(asyncio.run(attack(Target(**told), 60, float(sys.argv[2]))))
"""


async def honest(socket: Socket, over: asyncio.Event) -> int:
    """Speaks and hears until it is over -> how many utterances."""
    done = 0
    await socket.configure(turn_detection=None)
    while not over.is_set() or done < 2:
        raw, text = utterance(done)
        assert await socket.say(raw) == text
        done += 1
    socket.finished()
    return done


def test_honest_clients_notice_nothing() -> None:
    async def work(server: Running) -> None:
        async with (
            client(server, additional_headers=HEAD) as one,
            client(server, additional_headers=HEAD) as other,
        ):
            id = one.frames[0]["session"]["id"]
            broadcast = server.parts.hub.find(id)
            assert broadcast
            token = server.parts.hub.share(broadcast)
            to = Target("127.0.0.1", server.port, KEY, f"/v1/captions/{id}/events?token={token}")
            attackers = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                WORK,
                json.dumps(asdict(to)),
                str(SECONDS),
                cwd=Path(__file__).parent,
                stdout=asyncio.subprocess.PIPE,
            )
            over = asyncio.Event()
            speaking = [asyncio.create_task(honest(socket, over)) for socket in (one, other)]
            told, _ = await attackers.communicate()
            over.set()
            assert attackers.returncode == 0
            assert int(told) > 100
            assert min(await asyncio.gather(*speaking)) >= 2
            assert b"200 OK" in await ask(server, HEALTH)

    config = replace(MANY, max_sessions=20, max_readers=4)
    with serving(config=config, keys=(KEY,)) as server:
        run(lambda: work(server))
        until(lambda: server.parts.crowd.count == 0)
        server.settle()
