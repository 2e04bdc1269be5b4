"""Train what a plan wants and a store lacks, parents first; resumable, and the same bytes whatever happened."""
