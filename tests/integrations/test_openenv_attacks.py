"""`factgym serve openenv` under attack, its WebSockets included."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("openenv.core", reason="needs factgym[openenv]")

from retrieval_served import TOKEN
from serve_attacks import ATTACKS, Target, attack_from_pages, expected_of, make_target
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from factgym.integrations.openenv import FactClient, ServerLostError


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with make_target("openenv", tmp_path_factory.mktemp("served")).serving() as made:
        yield made


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_has_its_outcome(target: Target, name: str) -> None:
    assert ATTACKS[name][0](target) == expected_of(name, target.name)
    assert target.is_alive()


def test_pages_of_other_sites_are_refused(target: Target, tmp_path: Path) -> None:
    attack_from_pages(target, tmp_path)


@pytest.mark.parametrize(
    ("message", "code"),
    [("x" * (4 * 2**20 + 1), 1009), ("[" + "0," * 1_000_000 + "0]", 1009)],
    ids=["of 4 MiB and a byte", "of a million values"],
)
def test_a_hostile_message_ends_its_own_session_alone(target: Target, message: str, code: int) -> None:
    with connect(f"ws://127.0.0.1:{target.port}/ws") as other, connect(f"ws://127.0.0.1:{target.port}/ws") as socket:
        socket.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == code
        other.send('{"type": "state"}')
        assert json.loads(other.recv(60))["type"] == "state"


def test_a_compressed_bomb_is_refused_before_it_is_unpacked(target: Target) -> None:
    """100 MB of zeros in 100 kB, as RFC 7692 compresses a message."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -12)
    data = compressor.compress(bytes(100 * 2**20)) + compressor.flush(zlib.Z_SYNC_FLUSH)
    with connect(f"ws://127.0.0.1:{target.port}/ws") as socket:
        # A frame with the bits FIN and RSV1, the opcode of a text, a length of 8 bytes, and a mask of zeros.
        socket.socket.sendall(b"\xc1\xff" + len(data[:-4]).to_bytes(8, "big") + bytes(4) + data[:-4])
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
    assert target.is_alive()


def test_texts_of_many_separators_are_no_values(target: Target) -> None:
    """What a policy repeats, up to the limit of an action, is a turn of its episode."""
    with connect(f"ws://127.0.0.1:{target.port}/ws") as socket:
        socket.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
        socket.recv(60)
        for text in ("," * 190_000, "[" * 190_000, '\\"[,' * 60_000):
            socket.send(json.dumps({"type": "step", "data": {"text": text}}))
            assert json.loads(socket.recv(60))["type"] == "observation"


def test_the_client_brings_a_token_as_password_and_names_a_refusal(target: Target) -> None:
    with FactClient(f"http://me:{TOKEN}@127.0.0.1:{target.token_port}").sync() as client:
        assert not client.reset(task=0).done
    with pytest.raises(
        ServerLostError, match="refuses the connection: status 401: The token is missing or wrong"
    ) as lost:
        FactClient(f"http://me:{TOKEN}x@127.0.0.1:{target.token_port}").sync().connect()
    assert TOKEN not in str(lost.value)
