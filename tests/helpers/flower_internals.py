"""Names of Flower beyond its public modules that only tests need, each with the reason."""

from __future__ import annotations

# Function by which `flwr` commands read an app's folder: they must accept ours.
from flwr.cli.config_utils import load_and_validate

# Function by which `flwr supernode register` reads a public key's file: it must accept ours.
from flwr.cli.supernode.register import try_load_public_key

# Message by which a node of its own accord registers at a SuperLink, which must refuse it.
from flwr.proto.fleet_pb2 import RegisterNodeFleetRequest

# Type that `Grid.get_nodes` returns: the grids of tests tell with it whose key a node has.
from flwr.proto.node_pb2 import NodeInfo

# Keys in the form in which a SuperNode shows them.
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes

# Function by which a SuperNode reads its key's file: it must accept ours.
from flwr.supernode.cli.flower_supernode import _try_setup_client_authentication as node_authentication

# Client of a SuperLink's interface for nodes, to knock at it without an entry there.
from flwr.supernode.fleet_http_client import FleetHttpClient

# Signs what a node says with its key, to knock at a SuperLink as a node does.
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

__all__ = [
    "FleetHttpClient",
    "NodeAuthHttpInterceptor",
    "NodeInfo",
    "RegisterNodeFleetRequest",
    "generate_key_pairs",
    "load_and_validate",
    "node_authentication",
    "public_key_to_bytes",
    "try_load_public_key",
]
