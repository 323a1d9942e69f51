"""The machine: devices, memory, signals, worker processes, atomic file writes, arrays."""
