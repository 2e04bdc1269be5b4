"""Migration of runs that earlier versions made, when such a run is first opened.

Format 2 has registers (definition 12). A run of format 1 gets one for each client whose records are on this
machine; until its source can be read, it stays as it is and works as before.
"""

from __future__ import annotations

from fedsgt.data import Client
from fedsgt.errors import InputError
from fedsgt.runs.description import FORMAT
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_clients
from fedsgt.runs.register import Register, new_registers, with_registers
from fedsgt.runs.state import DeletedData, Live


def migrate(folder: RunFolder) -> None:
    """Bring a run of an older format to the present one, if its sources can be read."""
    while folder.live().description.format < FORMAT:
        live = folder.live()
        try:
            registers = _registers(folder, live)
            if registers is None:
                return
            with folder.publishing() as now:
                # Another process may have changed the description while the records were read.
                if now.description is live.description:
                    described = with_registers(folder.path, live.description, registers)
                    folder.describe_anew(described.model_copy(update={"format": FORMAT}))
        except (InputError, OSError):
            # The source cannot be read, or the run not be written: the run works as before, and the next
            # opening tries again.
            return


def _registers(folder: RunFolder, live: Live) -> dict[int, Register] | None:
    """Register the records that the clients have now; None if those are not what the run learnt from."""
    if folder.config.data.partition == "remote":
        return {}  # each client keeps its own
    clients = load_clients(folder.config, live.description).local
    # Rows that came or went since would be registered with the wrong client, or not at all.
    if not all(is_as_described(live, number, client) for number, client in enumerate(clients)):
        return None
    return new_registers(clients)


def is_as_described(live: Live, number: int, client: Client) -> bool:
    """Whether the client's records are those that the description has, but for slices that were hit since."""
    entry, erased = live.description.clients[number], live.deleted.get(number, DeletedData())
    found = client.retained(erased.slices, erased.records).fingerprints()
    hit = set(live.hit_slices())
    return all(mine == said or said in hit for mine, said in zip(found, entry.slices, strict=True))
