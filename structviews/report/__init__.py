"""Pages and pictures of what runs are and know."""
