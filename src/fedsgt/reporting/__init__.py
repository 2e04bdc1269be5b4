"""Say what a run is and what to expect of it: forecast, history, costs, comparison and the report."""
