"""What is done with parsed corpora as wholes, shard by shard and so in constant memory."""
