"""Networks: what becomes part of the exported file, and the critics that only training needs."""
