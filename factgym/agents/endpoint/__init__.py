"""Models behind OpenAI-compatible servers."""

from factgym.agents.endpoint.policy import Endpoint, EndpointEpisode
from factgym.agents.endpoint.settings import EndpointSettings

__all__ = ["Endpoint", "EndpointEpisode", "EndpointSettings"]
