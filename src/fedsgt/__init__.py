"""FedSGT: exact federated unlearning by sequential group-based training."""

__version__ = "0.1.0"
