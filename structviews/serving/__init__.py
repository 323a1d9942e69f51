"""An interactive page and JSON endpoints for runs: ``structviews serve``."""

import os

# Of oneDNN, before PyTorch is imported: it would keep 1,024 shapes of products, and a server that batches whatever
# requests are waiting keeps producing new ones (docs/serving.md).
for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(name, "128")
