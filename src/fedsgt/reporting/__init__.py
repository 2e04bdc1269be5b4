"""Views of a run for people and programs: status, forecast, history, costs, and the report."""
