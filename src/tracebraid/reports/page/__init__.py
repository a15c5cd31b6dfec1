"""A report as one self-contained HTML page: templates, styles, scripts, and the data in compressed columns."""
