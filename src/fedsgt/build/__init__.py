"""Train the modules that a plan wants and the store lacks, parents first; a stopped build can be resumed."""
