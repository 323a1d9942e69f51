def write_pages(plan, kept, docs):
    return []
