"""The ledger's tables, and triggers that make the database itself refuse to change entries."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, UniqueConstraint, inspect

# One table for all runs, so that several runs may share a database.
ENTRIES = Table(
    "fedsgt_ledger",
    MetaData(),
    Column("run", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    # Texts, not the database's own times and JSON: the hash is over these very characters.
    Column("time", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("key", Text),
    Column("hash", Text, nullable=False),
    # Entries without a key are null, and nulls do not clash.
    UniqueConstraint("run", "key"),
)
# High-water marks of runs, in PostgreSQL only; those of SQLite are outside of the run's folder.
MARKS = Table(
    "fedsgt_marks", MetaData(), Column("run", Text, primary_key=True), Column("mark", Text, nullable=False)
)
# The chain of hashes shows a change; the triggers also stop one that is made by mistake.
# In SQLite a REPLACE removes rows without calling the trigger on DELETE; the one on INSERT stops it.
_TRIGGERS = {
    "sqlite": (
        "CREATE TRIGGER fedsgt_ledger_update BEFORE UPDATE ON fedsgt_ledger"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: UPDATE refused'); END",
        "CREATE TRIGGER fedsgt_ledger_delete BEFORE DELETE ON fedsgt_ledger"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: DELETE refused'); END",
        "CREATE TRIGGER fedsgt_ledger_insert BEFORE INSERT ON fedsgt_ledger WHEN EXISTS"
        " (SELECT 1 FROM fedsgt_ledger WHERE run = NEW.run AND (position >= NEW.position OR key = NEW.key))"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: this position or key is taken'); END",
    ),
    "postgresql": (
        "CREATE OR REPLACE FUNCTION fedsgt_ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION USING MESSAGE = 'the ledger is append-only: ' || TG_OP || ' refused';"
        " END $$",
        "CREATE TRIGGER fedsgt_ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON fedsgt_ledger"
        " FOR EACH STATEMENT EXECUTE FUNCTION fedsgt_ledger_refuse()",
    ),
}


def has_table(connection: Connection, table: Table = ENTRIES) -> bool:
    """Whether this database holds the table, for any run."""
    return inspect(connection).has_table(table.name)


def make_tables(connection: Connection) -> None:
    """Make the tables and their triggers unless they are there."""
    if not has_table(connection):
        ENTRIES.create(connection)
        for statement in _TRIGGERS[connection.dialect.name]:
            connection.exec_driver_sql(statement)
    if connection.dialect.name == "postgresql" and not has_table(connection, MARKS):
        MARKS.create(connection)
