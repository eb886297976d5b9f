"""How a model is spread over ranks: meshes, fully_shard, expert parallel, and local shards."""
