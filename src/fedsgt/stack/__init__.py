"""Backbone, ordered PEFT modules and head: forward, training mode, export and import as PEFT adapters."""
