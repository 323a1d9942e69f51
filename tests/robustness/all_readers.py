"""All readers, and the modules that declare them."""

import readers_of_corpora
import readers_of_requests
import readers_of_runs
import readers_of_tasks
import readers_of_vectors
from readers import READERS

DECLARED_IN = (readers_of_corpora, readers_of_requests, readers_of_runs, readers_of_tasks, readers_of_vectors)
__all__ = ["DECLARED_IN", "READERS"]
