"""`factgym serve {mcp,openenv} ENV`, `serve retrieval SOURCE`, `serve check FOLDER`: environments, corpora, `factgym check`."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from factgym.cli.check import CalibrationFile, CheckAgent, ReadMemory, ReadSeconds
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
from factgym.integrations.frameworks import Shell

if TYPE_CHECKING:
    from factgym.check.checker import Checker
    from factgym.corpora.extraction import ReadingBudget
    from factgym.integrations.serving import Guard

serve_app = typer.Typer(
    help="Serve an environment or a corpus to programs that speak a protocol, or `factgym check` to people.",
    no_args_is_help=True,
)


def _shell(
    host: Annotated[str, typer.Option(help="Another than this machine's own opens it to the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN_VARIABLE, help="A secret that HTTP requests have to bring.", show_envvar=True),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Answer under this name, too; * under any.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Let web pages of this origin use it; * of any.")
    ] = None,
    max_connections: Annotated[int, typer.Option(min=1, help="Limit of connections at a time.")] = 800,
    request_seconds: Annotated[
        float, typer.Option(min=0.1, help="Limit for a request's headers, and again for its body.")
    ] = 30,
) -> Shell:
    """Read the options that all servers share."""
    return Shell(
        host, port, token, tuple(allow_host or ()), tuple(allow_origin or ()), max_connections, request_seconds
    )


def _with_shell(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options, and pass it what they say as its argument `shell`."""
    own, shared = (inspect.signature(function, eval_str=True).parameters for function in (command, _shell))
    parameters = [*own.values(), *shared.values()]
    parameters.remove(own["shell"])

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        shell = _shell(**{name: values.pop(name) for name in shared})
        command(**values, shell=shell)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


@serve_app.command("mcp")
@_with_shell
def serve_mcp(
    env: Annotated[str | None, typer.Argument(metavar="[ENV]", help="An environment; none with --corpus.")] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Serve list, search and read over a file or folder of passages instead.")
    ] = None,
    index: Annotated[str, typer.Option(help="Index of the corpus: bm25, or a server's URL.")] = "bm25",
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
    max_sessions: Annotated[int, typer.Option(min=1, help="For HTTP: episodes at a time; one more is refused.")] = 64,
    idle_seconds: Annotated[
        float, typer.Option(min=0.1, help="For HTTP: a silent session is ended after them.")
    ] = 1800,
    *,
    shell: Shell,
) -> None:
    """Serve an environment, or a corpus, to clients of the Model Context Protocol. One session is one episode."""
    if (env is None) == (corpus is None):
        raise ConfigError("name an environment, or a corpus with --corpus: one of the two")
    if corpus is not None:
        serve_mcp_corpus(corpus, index, transport, shell)
        return
    from factgym.integrations.mcp import Episodes, serve_http, serve_stdio

    assert env is not None
    config = parse_settings(settings, split=split, reward=reward, path=path)
    limit = max_sessions if transport == "http" else None
    with Episodes(env, config, task=task, seed=seed, show_reward=show_reward, out=out, max_running=limit) as episodes:
        if transport == "stdio":
            asyncio.run(serve_stdio(episodes))
            return
        raise typer.Exit(
            asyncio.run(serve_http(episodes, shell, _announce(f"Serving {env}", shell), idle_seconds=idle_seconds))
        )


def _announce(text: str, shell: Shell) -> Callable[[str], None]:
    """Return a function that prints what is served at a URL, and warns where other machines need no token for it."""

    def ready(url: str) -> None:
        print(f"{text} at {url}", file=sys.stderr, flush=True)
        if shell.is_open:
            warning = f"Warning: --host {shell.host} opens the server to other machines without a --token."
            print(warning, file=sys.stderr, flush=True)

    return ready


def _serve(application: Guard, text: str, *, websockets: bool = False) -> NoReturn:
    """Serve an application until the process is stopped. Raises typer.Exit."""
    from factgym.integrations.serving import serve

    raise typer.Exit(asyncio.run(serve(application, _announce(text, application.shell), websockets=websockets)))


def serve_mcp_corpus(corpus: Path, index: str, transport: str, shell: Shell) -> None:
    """Serve a corpus to clients of the Model Context Protocol."""
    from factgym.corpora.build import read_passages
    from factgym.integrations.mcp import CorpusServer, run_http, run_stdio
    from factgym.tools.evidence import PassageLibrary

    passages = read_passages(corpus)
    server = CorpusServer(PassageLibrary(passages, index))  # type: ignore[arg-type]
    if transport == "stdio":
        asyncio.run(run_stdio(server))
        return
    raise typer.Exit(asyncio.run(run_http(server, shell, _announce(f"Serving {len(passages):,} passages", shell))))


@serve_app.command("openenv")
@_with_shell
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
    folder: Annotated[
        Path | None, typer.Option(help="Serve nothing; write the folder that `openenv validate` and `push` take.")
    ] = None,
    *,
    shell: Shell,
) -> None:
    """Serve an environment to OpenEnv's clients. A connection is a session, and plays one episode at a time."""
    from factgym.integrations.openenv import app, write_folder

    config = parse_settings(settings, split=split, reward=reward, path=path)
    if folder is not None:
        for file in write_folder(env, config, folder, seed=seed, max_sessions=max_sessions, idle_seconds=idle_seconds):
            print(file)
        return
    application = app(
        env,
        config,
        seed=seed,
        max_sessions=max_sessions,
        idle_seconds=idle_seconds,
        max_message_bytes=int(max_message_mb * 2**20),
        shell=shell,
    )
    _serve(application, f"Serving {env}", websockets=True)


@serve_app.command("retrieval")
@_with_shell
def serve_retrieval(
    source: Annotated[Path, typer.Argument(help="A file or folder of passages, or what `factgym corpus build` wrote.")],
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
    *,
    shell: Shell,
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
        server = RetrievalServer(corpus, built, index, topk=topk, limits=limits, shell=shell)
        _serve(server.app, f"Serving {len(corpus):,} passages")


@serve_app.command("counts")
@_with_shell
def serve_counts(
    index: Annotated[
        str, typer.Argument(help="A co-occurrence index, a folder of them (summed), or infini-gram:FOLDER.")
    ],
    name: Annotated[str | None, typer.Option(help="Of the index in requests; default the file's.")] = None,
    semantics: CountSemantics = "infini-gram",
    window: CountWindow = 1000,
    tokenizer: CountTokenizer = None,
    max_query_chars: Annotated[int, typer.Option(min=1, help="Limit of characters of one query.")] = 2000,
    *,
    shell: Shell,
) -> None:
    """Serve counts of words that occur together, in the form of infini-gram's API. `counter=URL` is CorVer's client."""
    from factgym.corpora.cooccurrence import open_counter
    from factgym.integrations.counts import CountServer

    options = {} if tokenizer is None else {"tokenizer": tokenizer}
    counter = open_counter(index, semantics=semantics, window=window, **options)
    title = name or Path(index.removeprefix("infini-gram:")).stem
    server = CountServer(counter, title, max_query_chars=max_query_chars, shell=shell)
    _serve(server.app, f"Serving counts of {title}")


@serve_app.command("check")
@_with_shell
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
    read_seconds: ReadSeconds = 600.0,
    read_memory_mb: ReadMemory = 4096,
    *,
    shell: Shell,
) -> None:
    """Serve `factgym check` as a web page and a JSON API: paste a text, choose documents, see verdicts and quotes.

    Another --host than this machine's own needs a --token.
    """
    from factgym.corpora.extraction import ReadingBudget
    from factgym.integrations.check_server import CheckLimits, CheckServer

    if shell.is_open:
        raise ConfigError(f"--host {shell.host} opens the server to other machines: give a --token as well")
    settings = parse_settings(
        agent_set, "--agent-set", base_url=base_url, temperature=temperature, max_tokens=max_tokens
    )
    budget = ReadingBudget(read_seconds, read_memory_mb)
    limits = CheckLimits(max_text_chars, max_running=max_running, max_waiting=max_waiting, max_seconds=max_seconds)
    checkers = _checkers(folders, agent, settings, concurrency, calibration, budget)
    _serve(CheckServer(checkers, limits=limits, shell=shell).app, "Serving checks of texts")


def _checkers(
    folders: list[Path],
    agent: str,
    settings: dict[str, Any],
    concurrency: int,
    calibration: Path | None,
    budget: ReadingBudget,
) -> dict[str, Checker]:
    """Checkers that share an agent, by the name of their folder. budget: for all folders together."""
    from factgym.check.calibration import read_calibrations
    from factgym.check.checker import Checker
    from factgym.check.documents import CheckedDocuments
    from factgym.corpora.documents import skipped_lines

    calibrations = None if calibration is None else read_calibrations(calibration)
    checkers: dict[str, Checker] = {}
    for folder in folders:
        label = folder.resolve().name
        if label in checkers:
            raise ConfigError(f"two of the folders are called {label!r}: rename one of them")
        documents = CheckedDocuments(folder, budget)
        first = next(iter(checkers.values()), None)
        checkers[label] = (
            Checker(documents, agent, settings, concurrency, calibrations)
            if first is None
            else Checker(documents, first.resolved_agent, {}, concurrency, calibrations)
        )
        for line in skipped_lines(documents.skipped):
            print(f"Not read: {label}/{line}", file=sys.stderr)
    return checkers
