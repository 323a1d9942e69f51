"""Tree-LSTM and Tree-GRU cells, the backends that run them over a batch of trees, and recurrent networks."""

# Backends of a tree cell: level by level, message passing in DGL (an extra), or plain recursion (the reference).
BACKENDS = ("level", "dgl", "naive")
