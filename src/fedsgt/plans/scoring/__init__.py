"""Score a plan: live data, survival and cost, exactly or by sampling."""
