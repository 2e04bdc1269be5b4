"""Parts of `fedsgt.compare`: the compared systems, their requests, the folder of results, the time left."""
