"""The paper's experiments, on the package as users have it: configuration in, results and plots out."""
