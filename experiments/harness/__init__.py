"""Tools that all experiments share: training runs, requests, results, statistics, plots and pages."""
