"""`factgym serve {mcp,openenv} ENV`, `serve retrieval SOURCE`, `serve check FOLDER`: environments, corpora, `factgym check`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from factgym.cli.check import CalibrationFile, CheckAgent
from factgym.cli.options import (
    AgentSettings,
    BaseUrl,
    CountSemantics,
    CountTokenizer,
    CountWindow,
    DataPath,
    EnvId,
    IndexSettings,
    MaxTokens,
    Reward,
    Seed,
    Settings,
    Split,
    Temperature,
    parse_settings,
)
from factgym.core.errors import ConfigError
from factgym.corpora.http_client import TOKEN_VARIABLE

if TYPE_CHECKING:
    from factgym.check.checker import Checker

Token = Annotated[
    str | None,
    typer.Option(envvar=TOKEN_VARIABLE, help="A secret that HTTP requests have to bring.", show_envvar=True),
]
Host = Annotated[str, typer.Option(help="Another than this machine's own opens it to the network.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]

serve_app = typer.Typer(
    help="Serve an environment or a corpus to programs that speak a protocol, or `factgym check` to people.",
    no_args_is_help=True,
)


@serve_app.command("mcp")
def serve_mcp(
    env: Annotated[str | None, typer.Argument(metavar="[ENV]", help="An environment; none with --corpus.")] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Serve list, search and read over a file or folder of passages instead.")
    ] = None,
    index: Annotated[str, typer.Option(help="Index of the corpus: bm25, rank-bm25, or a server's URL.")] = "bm25",
    task: Annotated[str | None, typer.Option(help="A task's id or index, for every session.")] = None,
    seed: Seed = 0,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    show_reward: Annotated[
        bool, typer.Option("--show-reward", help="Show the reward report with the episode's last result.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="A run's folder for the finished episodes; continued if there.")
    ] = None,
    transport: Annotated[Literal["stdio", "http"], typer.Option(help="stdio, or streamable HTTP at /mcp.")] = "stdio",
    host: Annotated[
        str, typer.Option(help="For HTTP; another than this machine's own should have a --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="For HTTP; 0 takes a free one.")] = 8000,
    max_sessions: Annotated[int, typer.Option(min=1, help="For HTTP: episodes at a time; one more is refused.")] = 64,
    idle_seconds: Annotated[
        float, typer.Option(min=0.1, help="For HTTP: a silent session is ended after them.")
    ] = 1800,
    token: Token = None,
) -> None:
    """Serve an environment, or a corpus, to clients of the Model Context Protocol. One session is one episode."""
    if (env is None) == (corpus is None):
        raise ConfigError("name an environment, or a corpus with --corpus: one of the two")
    if corpus is not None:
        serve_mcp_corpus(corpus, index, transport, host, port, token)
        return
    from factgym.integrations.mcp import Episodes, serve_http, serve_stdio

    assert env is not None
    config = parse_settings(settings, split=split, reward=reward, path=path)
    limit = max_sessions if transport == "http" else None
    with Episodes(env, config, task=task, seed=seed, show_reward=show_reward, out=out, max_running=limit) as episodes:
        if transport == "stdio":
            asyncio.run(serve_stdio(episodes))
            return
        ready = _announce(f"Serving {env}", host, token)
        asyncio.run(serve_http(episodes, host, port, ready, idle_seconds=idle_seconds, token=token))


def _announce(text: str, host: str, token: str | None) -> Callable[[str], None]:
    """Return a function that prints what is served at a URL, and warns where other machines need no token for it."""
    from factgym.integrations.frameworks import open_to_network_warning

    def ready(url: str) -> None:
        warning = open_to_network_warning(host, token)
        print(f"{text} at {url}", *filter(None, [warning]), sep="\n", file=sys.stderr, flush=True)

    return ready


def _serve_asgi(application: Any, text: str, host: str, port: int, token: str | None) -> None:
    """Serve an ASGI application, behind a token where there is one, until the process is stopped."""
    from factgym.integrations.frameworks import serve_app as serve_asgi
    from factgym.integrations.frameworks import with_token

    asyncio.run(serve_asgi(with_token(application, token), host, port, _announce(text, host, token)))


def serve_mcp_corpus(corpus: Path, index: str, transport: str, host: str, port: int, token: str | None) -> None:
    """Serve a corpus to clients of the Model Context Protocol."""
    from factgym.corpora.build import read_passages
    from factgym.integrations.mcp import run_http, run_stdio
    from factgym.integrations.mcp_corpus import CorpusServer
    from factgym.tools.evidence import PassageLibrary

    passages = read_passages(corpus)
    server = CorpusServer(PassageLibrary(passages, index))  # type: ignore[arg-type]
    if transport == "stdio":
        asyncio.run(run_stdio(server))
        return
    asyncio.run(run_http(server, host, port, _announce(f"Serving {len(passages):,} passages", host, token), token))


@serve_app.command("openenv")
def serve_openenv(
    env: EnvId,
    seed: Seed = 0,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    max_sessions: Annotated[int, typer.Option(min=1, help="Connections at a time; one more is refused.")] = 64,
    idle_seconds: Annotated[float, typer.Option(min=1, help="A silent session is ended after them.")] = 3600,
    max_message_mb: Annotated[float, typer.Option(min=0.1, help="Largest message of a client, in megabytes.")] = 4,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    folder: Annotated[
        Path | None, typer.Option(help="Serve nothing; write the folder that `openenv validate` and `push` take.")
    ] = None,
) -> None:
    """Serve an environment to OpenEnv's clients. A connection is a session, and plays one episode at a time."""
    from factgym.integrations.frameworks import with_token
    from factgym.integrations.openenv import app, serve, write_folder

    config = parse_settings(settings, split=split, reward=reward, path=path)
    if folder is not None:
        for file in write_folder(env, config, folder, seed=seed, max_sessions=max_sessions, idle_seconds=idle_seconds):
            print(file)
        return
    limit = int(max_message_mb * 2**20)
    application = app(
        env, config, seed=seed, max_sessions=max_sessions, idle_seconds=idle_seconds, max_message_bytes=limit
    )
    ready = _announce(f"Serving {env}", host, token)
    asyncio.run(serve(with_token(application, token), host, port, ready, limit))


@serve_app.command("retrieval")
def serve_retrieval(
    source: Annotated[
        Path, typer.Argument(help="A file or folder of passages, or what `factgym corpus build` wrote.")
    ],
    layout: Annotated[str, typer.Option(help="Of the passages; folder cuts files as claimcheck-docs does.")] = "auto",
    index: Annotated[
        Literal["bm25", "dense", "hybrid", "rerank", "late", "multi-hop"], typer.Option(help="The index.")
    ] = "bm25",
    encoder: Annotated[str | None, typer.Option(help="Of dense and hybrid: a model's name or folder.")] = None,
    preset: Annotated[str | None, typer.Option(help="The encoder's prompts and pooling, such as e5.")] = None,
    settings: IndexSettings = None,
    topk: Annotated[int, typer.Option(min=1, help="Hits of a request that names no number.")] = 3,
    max_topk: Annotated[int, typer.Option(min=1, help="Limit of hits of one query.")] = 100,
    max_queries: Annotated[int, typer.Option(min=1, help="Limit of queries in one request.")] = 4096,
    max_query_chars: Annotated[int, typer.Option(min=1, help="Limit of characters of one query.")] = 20_000,
    max_body_mb: Annotated[float, typer.Option(min=0.001, help="Limit of one request, in megabytes.")] = 16,
    max_batch: Annotated[int, typer.Option(min=1, help="Queries of one call of the index.")] = 256,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Search on a Ray cluster: HOST:PORT, auto or local.")
    ] = None,
    shards: Annotated[int, typer.Option(min=1, help="With --ray: parts of the corpus.")] = 1,
    replicas: Annotated[int, typer.Option(min=1, help="With --ray: processes that serve each part.")] = 1,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
) -> None:
    """Serve search in a corpus, with the `/retrieve` of Search-R1. `index=URL` is the client in every environment."""
    from factgym.corpora.build import read_passages
    from factgym.corpora.index import Index, build_index
    from factgym.integrations.retrieval import RetrievalLimits, RetrievalServer

    # OpenMP's threads spin while they wait for each other, which starves an encoder as soon as anything else needs the
    # cores, be it the server's own event loop: 64 texts took 5 s instead of .3 s. Read when torch or FAISS is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    limits = RetrievalLimits(
        max_queries=max_queries,
        max_query_chars=max_query_chars,
        max_topk=max_topk,
        max_body_bytes=int(max_body_mb * 2**20),
        max_batch=max_batch,
    )
    options = parse_settings(settings, encoder=encoder, preset=preset)
    corpus = read_passages(source, layout=layout)
    with ExitStack() as cluster:
        if ray is None:
            if (shards, replicas) != (1, 1):
                raise ConfigError("--shards and --replicas are of a cluster: give --ray ADDRESS")
            built: Index = build_index(corpus, index, **options)
        else:
            from factgym.integrations.ray_serve import ray_index

            built = cluster.enter_context(ray_index(ray, source, index, shards=shards, replicas=replicas, **options))
        server = RetrievalServer(corpus, built, index, topk=topk, limits=limits)
        _serve_asgi(server.app, f"Serving {len(corpus):,} passages", host, port, token)


@serve_app.command("counts")
def serve_counts(
    index: Annotated[
        str, typer.Argument(help="A co-occurrence index, a folder of them (summed), or infini-gram:FOLDER.")
    ],
    name: Annotated[str | None, typer.Option(help="Of the index in requests; default the file's.")] = None,
    semantics: CountSemantics = "infini-gram",
    window: CountWindow = 1000,
    tokenizer: CountTokenizer = None,
    max_query_chars: Annotated[int, typer.Option(min=1, help="Limit of characters of one query.")] = 2000,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
) -> None:
    """Serve counts of words that occur together, in the form of infini-gram's API. `counter=URL` is CorVer's client."""
    from factgym.corpora.cooccurrence import open_counter
    from factgym.integrations.counts import CountServer

    options = {} if tokenizer is None else {"tokenizer": tokenizer}
    counter = open_counter(index, semantics=semantics, window=window, **options)
    title = name or Path(index.removeprefix("infini-gram:")).stem
    server = CountServer(counter, title, max_query_chars=max_query_chars)
    _serve_asgi(server.app, f"Serving counts of {title}", host, port, token)


@serve_app.command("check")
def serve_check(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Documents to choose from: folders, or single files.")
    ],
    agent: CheckAgent = "rules",
    base_url: BaseUrl = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    agent_set: AgentSettings = None,
    calibration: CalibrationFile = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Claims of a text at a time.")] = 8,
    max_text_chars: Annotated[int, typer.Option(min=1, help="Limit of characters of a text.")] = 20_000,
    max_running: Annotated[int, typer.Option(min=1, help="Texts that are checked at a time.")] = 2,
    max_waiting: Annotated[int, typer.Option(min=0, help="Texts that wait; one more is refused.")] = 16,
    max_seconds: Annotated[float, typer.Option(min=1, help="A longer check is given up.")] = 300,
    token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE,
            help="A secret that requests have to bring; needed with another --host.",
            show_envvar=True,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Another than this machine's own needs --token.")] = "127.0.0.1",
    port: Port = 8000,
) -> None:
    """Serve `factgym check` as a web page and a JSON API: paste a text, choose documents, see verdicts and quotes."""
    from factgym.integrations.check_server import CheckLimits, CheckServer
    from factgym.integrations.frameworks import is_loopback
    from factgym.integrations.frameworks import serve_app as serve_asgi

    if token is None and not is_loopback(host):
        raise ConfigError(f"--host {host} opens the server to other machines: give a --token as well")
    settings = parse_settings(
        agent_set, "--agent-set", base_url=base_url, temperature=temperature, max_tokens=max_tokens
    )
    limits = CheckLimits(max_text_chars, max_running=max_running, max_waiting=max_waiting, max_seconds=max_seconds)
    checkers = _checkers(folders, agent, settings, concurrency, calibration)
    server = CheckServer(checkers, limits=limits, token=token)
    asyncio.run(serve_asgi(server.app, host, port, _announce("Serving checks of texts", host, token)))


def _checkers(
    folders: list[Path], agent: str, settings: dict[str, Any], concurrency: int, calibration: Path | None
) -> dict[str, Checker]:
    """Checkers that share an agent, by the name of their folder."""
    from factgym.check.calibration import read_calibrations
    from factgym.check.checker import Checker
    from factgym.check.documents import CheckedDocuments

    calibrations = None if calibration is None else read_calibrations(calibration)
    checkers: dict[str, Checker] = {}
    for folder in folders:
        label = folder.resolve().name
        if label in checkers:
            raise ConfigError(f"two of the folders are called {label!r}: rename one of them")
        documents = CheckedDocuments(folder)
        first = next(iter(checkers.values()), None)
        checkers[label] = (
            Checker(documents, agent, settings, concurrency, calibrations)
            if first is None
            else Checker(documents, first.resolved_agent, {}, concurrency, calibrations)
        )
        for file in documents.skipped:
            print(f"Not read: {label}/{file.path}: {file.reason}", file=sys.stderr)
    return checkers
