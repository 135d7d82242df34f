"""One module for each script: ``RECIPE``, and ``make_data(folder)`` where the script reads data."""
