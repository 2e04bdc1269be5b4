"""Migration of runs that earlier versions made, when such a run is first opened.

Format 2 has registers (definition 12). A run of format 1 gets one for each client whose records are on this
machine; until its source can be read, it stays as it is and works as before.
"""

from __future__ import annotations

from fedsgt.errors import InputError
from fedsgt.runs.description import FORMAT
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_clients
from fedsgt.runs.register import Register, new_registers, with_registers
from fedsgt.runs.state import Live


def migrate(folder: RunFolder) -> None:
    """Bring a run of an older format to the present one, if its sources can be read."""
    while folder.live().description.format < FORMAT:
        live = folder.live()
        try:
            registers = _registers(folder, live)
        except InputError:
            # Nobody knows the ids: the next opening tries again, and single records are looked for in the
            # source meanwhile.
            return
        with folder.publishing() as now:
            # Another process may have changed the description while the records were read.
            if now.description is live.description:
                described = with_registers(folder.path, live.description, registers)
                folder.describe_anew(described.model_copy(update={"format": FORMAT}))


def _registers(folder: RunFolder, live: Live) -> dict[int, Register]:
    """Register the records that the clients have now; what was erased before is in the ledger."""
    if folder.config.data.partition == "remote":
        return {}  # each client keeps its own
    return new_registers(load_clients(folder.config, live.description).local)
