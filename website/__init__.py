"""What builds the site: MkDocs hooks, the gallery, and the check of public names."""
