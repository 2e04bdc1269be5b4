"""Train what a plan wants and a store lacks, parents first; resumable, to the same bytes."""
