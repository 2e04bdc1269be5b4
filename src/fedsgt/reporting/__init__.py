"""Tell what a run is and what to expect of it: its status, forecast, history, costs, and the report."""
