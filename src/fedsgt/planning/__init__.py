"""Choose a setting: streams of requests, the planner and the recommender."""
